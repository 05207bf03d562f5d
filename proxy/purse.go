package proxy

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

const (
	// tricklePart is the part of a limit of bytes that is kept for bodies that stand
	// still, so that their servers do not take them for dead.
	tricklePart = 100
	// trickleSuffix ends the names of what trickles.
	trickleSuffix = " trickle"
	// trickleMost is how much one of them gets.
	trickleMost = 512
	// restOfPurse is how long a purse is kept that nobody uses: longer than an idle
	// connection, which still has it.
	restOfPurse = time.Minute
	// mostPurses is how many there may be before those go early that nobody uses.
	mostPurses = 10_000
)

// trickleEvery is how often what stands still gets a little. Tests have less time.
var trickleEvery = 5 * time.Second

var errStandsStill = errors.New("a limit of bytes kept it still for too long")

// trickleOf is the small part of a limit of bytes that is for what stands still.
func trickleOf(whole queue.Limit) queue.Limit {
	one, spec := whole, *whole.Spec
	one.Name, one.Title = whole.Name+trickleSuffix, "trickle of "+whole.Title
	if one.Subject != nil {
		of := *one.Subject
		of.Unit += trickleSuffix
		one.Subject = &of
	}
	spec.Amount = max(spec.Amount/tricklePart, 1)
	if spec.Burst > 0 {
		spec.Burst = max(spec.Burst/tricklePart, 1)
	}
	one.Spec = &spec
	return one
}

// wholeOf is the limit of bytes of which the larger part is so much.
func wholeOf(part int64) int64 {
	whole := part + part/(tricklePart-1)
	for whole-max(whole/tricklePart, 1) < part {
		whole++
	}
	return whole
}

// holder is whose bytes a purse holds: what its limits depend on.
type holder struct {
	site         string
	target       policy.Target
	client       string // where a limit is by client
	budget       string // a token's or a backend's, where there are any
	method, path string // where a limit is about some requests only
	tunnel       bool   // whose requests nobody sees
}

// purse is what the connections of a site take their bytes from, as far as its limits
// allow. It counts them too. Many exchanges share one.
type purse struct {
	*metrics.Site
	who          holder
	server       *Server
	stall        atomic.Int64
	on           atomic.Bool // there is a limit to keep
	slack, grain atomic.Int64
	buffer       atomic.Int64 // of a connection
	window       atomic.Int64 // the length of the shortest
	tap, trickle *queue.Tap
	refs         int          // exchanges and tunnels that have it; guarded by purses.mu
	used         atomic.Int64 // sinceStart, of the last time
	loose        atomic.Int64 // of the trickle: what may come back

	mu    sync.Mutex
	still map[<-chan struct{}]time.Time // :: connection → since when it has stood still
}

// purses are those that are in use, or were a moment ago.
type purses struct {
	mu    sync.Mutex
	known map[holder]*purse
	many  int // that many are worth another look
}

// Budgeted is upstream.Limiter's.
func (p *purse) Budgeted() bool { return p.on.Load() }

// Refund is upstream.Limiter's. Whatever has trickled goes back there first, for it is
// nowhere else to be had.
func (p *purse) Refund(n int) {
	rest := int64(n)
	for {
		loose := p.loose.Load()
		part := min(rest, loose)
		if part <= 0 {
			break
		}
		if p.loose.CompareAndSwap(loose, loose-part) {
			p.trickle.Refund(part)
			rest -= part
		}
	}
	p.tap.Refund(rest)
}

// Credit is upstream.Limiter's. What has to wait gets a little now and then, until it
// has stood still for too long.
func (p *purse) Credit(done <-chan struct{}, n int) (int, error) { return p.draw(done, n, 1, true, 0) }

// draw is Credit for at least so many bytes, or as many as the limits ever give. With
// some patience it answers 0 after that.
func (p *purse) draw(done <-chan struct{}, n, least int, trickles bool, patience time.Duration) (int, error) {
	for p.Budgeted() { // a reload may have ended it
		now := time.Now()
		p.used.Store(int64(sinceStart()))
		until := p.since(done, now).Add(time.Duration(p.stall.Load()))
		got, err := p.tap.Draw(done, int64(n), max(p.grain.Load(), int64(least)), earlier(until, now.Add(cmp.Or(patience, trickleEvery))))
		if err == nil {
			p.moves(done)
			return int(got), nil
		}
		select {
		case <-done:
			p.moves(done)
			return 0, err
		default:
		}
		p.stands(done, now)
		now = time.Now()
		switch {
		case !now.Before(until):
			err = errStandsStill
			p.gaveUp()
		case patience > 0 && !over(err):
			return 0, nil
		case !trickles && !over(err):
			continue
		case over(err):
		default:
			if got, err = p.trickle.Draw(done, int64(min(n, trickleMost)), 1, now); err == nil {
				p.loose.Store(got)
				return int(got), nil
			}
			if !over(err) {
				continue
			}
		}
		p.moves(done)
		return 0, err
	}
	p.moves(done)
	return n, nil
}

// gaveUp tells people why something broke off.
func (p *purse) gaveUp() {
	p.server.log.WithField("site", p.who.site).WithField("limit", p.title()).Info("a limit of bytes kept a connection still for longer than its stall, so it is closed")
	if p.who.tunnel {
		p.server.metrics.Refused(answerStandsStill.reason)
	}
}

// over tells whether nothing more will come of a draw: abide stops, or the purse was
// closed, which nobody used for long.
func over(err error) bool {
	var no *queue.Refusal
	return errors.Is(err, queue.ErrGone) || errors.As(err, &no) && no.Reason == queue.Draining
}

// since is since when a connection has stood still: now, unless it did already.
func (p *purse) since(done <-chan struct{}, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.still[done]; ok {
		return at
	}
	return now
}

// mostStill bounds what is remembered of connections that may be gone.
const mostStill = 10_000

func (p *purse) stands(done <-chan struct{}, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.still[done]; ok {
		return
	}
	if p.still == nil || len(p.still) >= mostStill {
		p.still = map[<-chan struct{}]time.Time{}
	}
	p.still[done] = now
}

func (p *purse) moves(done <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.still, done)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// pocket gives an exchange that is about to be sent the purse of its site, if there
// are limits of bytes.
func (s *Server) pocket(x *exchange) {
	p := x.turn.plan
	if p == nil || p.bytes == 0 {
		s.empty(x)
		return
	}
	who := holder{site: x.site, target: x.target}
	if p.bytesBy("client") {
		who.client = x.clientName()
	}
	who.budget = x.budget()
	if len(p.lists.routed) > 0 || p.bytesBy("route") {
		who.method, who.path = x.method, x.path
	}
	if x.bytes != nil && x.bytes.who == who {
		return
	}
	s.empty(x)
	x.bytes = s.purse(who, x.meter)
}

// empty takes the purse from an exchange.
func (s *Server) empty(x *exchange) {
	if x.bytes != nil {
		s.purses.leave(x.bytes)
		x.bytes = nil
	}
}

// bytesBy tells whether a limit of bytes is each one's own.
func (p *plan) bytesBy(whose string) bool {
	return slices.ContainsFunc(p.limits, func(l planned) bool { return l.rule.Unit == policy.Bytes && l.rule.By == whose })
}

// purse finds or makes one. It must be left.
func (s *Server) purse(who holder, meter *metrics.Site) *purse {
	s.stir()
	all := &s.purses
	if all.full() {
		all.tidy(3*trickleEvery - restOfPurse) // what stands still has one too
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	p := all.known[who]
	if p == nil {
		p = &purse{Site: meter, who: who, server: s}
		p.tap = s.gate.Tap(p.request(false))
		p.trickle = s.gate.Tap(p.request(true))
		p.refresh(s.state.Load())
		if all.known == nil {
			all.known = map[holder]*purse{}
		}
		all.known[who] = p
	}
	p.refs++
	p.used.Store(int64(sinceStart()))
	return p
}

// full tells whether there are so many that some have to go. It is not asked for
// each, in case all are in use.
func (a *purses) full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) < max(a.many, mostPurses) {
		return false
	}
	a.many = len(a.known) + mostPurses/10
	return true
}

func (a *purses) leave(p *purse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.refs--
	p.used.Store(int64(sinceStart()))
}

// tidy closes those that nobody has used for longer than any connection is idle.
func (a *purses) tidy(idle time.Duration) {
	var gone []*purse
	a.mu.Lock()
	for who, p := range a.known {
		if p.refs == 0 && sinceStart()-time.Duration(p.used.Load()) > idle+restOfPurse {
			delete(a.known, who)
			gone = append(gone, p)
		}
	}
	if len(a.known) < mostPurses {
		a.many = 0
	}
	a.mu.Unlock()
	for _, p := range gone {
		p.tap.Close()
		p.trickle.Close()
	}
}

// reload has all of them keep what the newest configuration says.
func (a *purses) reload(st *state) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.known {
		p.refresh(st)
	}
}

func (p *purse) refresh(st *state) {
	plan := st.planOf(p.who.site, st.policy.Match(p.who.target).Rule)
	p.on.Store(plan != nil && plan.bytes > 0 && !st.policy.Observes())
	if plan != nil {
		p.stall.Store(int64(plan.stall))
	}
	limits := st.bytesOf(p.who, false)
	p.slack.Store(queue.SlackOf(limits))
	p.grain.Store(grainOf(limits))
	p.buffer.Store(queue.BufferOf(limits))
	p.window.Store(windowOf(limits))
}

// pouch is what the gate knows one of a purse's taps by.
type pouch struct {
	*purse
	trickles bool
}

func (p *purse) request(trickles bool) queue.Request {
	q := queue.Request{Site: p.who.site, Client: p.who.client, Method: p.who.method, Path: p.who.path, Tag: pouch{p, trickles}}
	st := p.server.state.Load()
	q.Made, q.Limits = st.made, [][]queue.Limit{st.bytesOf(p.who, trickles)}
	return q
}

// bytesOf are the limits of bytes that somebody is under.
func (st *state) bytesOf(who holder, trickles bool) []queue.Limit {
	p := st.planOf(who.site, st.policy.Match(who.target).Rule)
	if p == nil {
		return nil
	}
	var list []queue.Limit
	only := p.backend(strings.TrimSpace(who.budget)).limits()
	for i := range p.limits {
		l := &p.limits[i]
		if l.only != only {
			continue
		}
		if l.rule.Unit != policy.Bytes || !l.rule.Covers(who.method, who.path) || who.tunnel && l.rule.NeedsRequests() {
			continue
		}
		one := l.need
		if trickles {
			one = l.trickle
		}
		one.N = 1
		switch {
		case len(p.backends) > 0, l.token:
			one.Key = strings.TrimSpace(who.budget)
		}
		list = append(list, one)
	}
	return list
}

// tooLong refuses an answer whose announced length cannot pass by the limits of bytes
// without standing still for too long.
func (s *Server) tooLong(x *exchange, resp *http.Response) *answer {
	if x.bytes == nil || !x.bytes.Budgeted() || resp.ContentLength <= 0 || resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	now := time.Now()
	at, pause, ok := x.bytes.tap.Foresee(resp.ContentLength)
	switch {
	case !ok, pause > time.Duration(x.bytes.stall.Load()):
		return answerLongBody.until(x.bytes.title(), at, now)
	}
	return nil
}

// title is the limits of bytes in words.
func (p *purse) title() string {
	var titles []string
	for _, l := range p.server.state.Load().bytesOf(p.who, false) {
		titles = append(titles, l.Title)
	}
	return strings.Join(titles, ", ")
}

// stint is what a tunnel's connection takes its bytes from.
func (s *Server) stint(site string, target policy.Target, client string) *purse {
	return s.purse(holder{site: site, target: target, client: client, tunnel: true}, s.metrics.Site(site))
}
