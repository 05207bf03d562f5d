package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

const (
	// permitLife is how long a permit may be out without being settled. What nobody
	// settles counts as sent.
	permitLife = time.Minute
	// mostPermits are out at once.
	mostPermits = 100_000
	// leastWait is the longest wait of a request that goes now or not at all: for the
	// answer of a store, until the outage rule holds.
	leastWait = 250 * time.Millisecond
)

var (
	// ErrNoPermit is for one that was settled, has expired, or never was.
	ErrNoPermit = errors.New("there is no such permit: it was settled before, has expired, or never was")
	// ErrPermitAsk is for a request that abide would not send.
	ErrPermitAsk = errors.New("the URL has to begin with http:// or https:// and name a host, and the method be one that abide sends")
)

// PermitAsk is what a crawler that sends its requests itself wants to send.
type PermitAsk struct {
	URL, Method, Client string
	Bytes, Cost         int64
	Wait                time.Duration
	Priority            int // 0 to 7; -1 is the usual one

	// Queued is called once: when its place in the queue is certain, or none is needed.
	Queued func()
}

// Grant is the right to send it, once.
type Grant struct {
	ID, Site string
	Token    string // the label of the one that it is to be sent with; "" is none
	Waited   time.Duration
	Expires  time.Time
}

// PermitEnd is what became of it.
type PermitEnd struct {
	Bytes   int64 // of the answer; 0: as asked
	Status  int   // 0: there was no answer
	Headers [][2]string
	Unsent  bool // it was not sent after all
}

// Denied is why there is no permit.
type Denied struct {
	Reason, Title, Detail, Limit string
	Status                       int
	RetryAt                      time.Time
}

func (d *Denied) Error() string { return d.Title }

// denied is the answer for who asked for a permit.
func (a *answer) denied(now time.Time) *Denied {
	d := &Denied{Reason: a.reason, Title: a.title, Detail: a.detail, Limit: a.limit, Status: a.status, RetryAt: a.at}
	if d.RetryAt.IsZero() && a.retry > 0 {
		d.RetryAt = now.Add(a.retry)
	}
	return d
}

// permits are those that are out.
type permits struct {
	mu    sync.Mutex
	out   map[string]*outing // :: ID →
	shut  bool
	ended sync.WaitGroup
}

// outing is a request that somebody else sends.
type outing struct {
	x      *exchange
	r      *http.Request
	cancel context.CancelFunc
	expiry *time.Timer
}

// Permit waits until a request may be sent. The permit must be settled; one that is
// not counts as sent once it has expired.
func (s *Server) Permit(ctx context.Context, a PermitAsk) (Grant, error) {
	var queued func()
	if a.Queued != nil {
		queued = sync.OnceFunc(a.Queued)
		defer queued()
	}
	x, r, err := s.outing(ctx, a)
	if err != nil {
		return Grant{}, err
	}
	x.queued = queued
	own, cancel := context.WithCancel(context.Background()) // it outlives the call
	began := time.Now()
	no := s.owned(x, r)
	if no == nil {
		no = s.reachable(x)
	}
	if no == nil {
		no = s.wait(x, r)
	}
	if no != nil {
		cancel()
		s.end(x)
		if ctx.Err() != nil {
			return Grant{}, ctx.Err()
		}
		s.metrics.Refused(no.reason)
		return Grant{}, no.denied(time.Now())
	}
	x.sent, x.first = time.Now(), time.Now()
	x.turn.result = queue.Result{Outcome: limit.Abandoned}
	x.ctx.Context = own
	id := make([]byte, 16)
	rand.Read(id)
	grant := Grant{ID: hex.EncodeToString(id), Site: x.site, Token: x.turn.label, Waited: time.Since(began), Expires: time.Now().Add(permitLife)}
	o := &outing{x: x, r: r.WithContext(&x.ctx), cancel: cancel}
	all := &s.permits
	all.mu.Lock()
	full := len(all.out) >= mostPermits
	if !full && !all.shut {
		if all.out == nil {
			all.out = map[string]*outing{}
		}
		all.out[grant.ID] = o
		o.expiry = time.AfterFunc(permitLife, func() { _ = s.SettlePermit(grant.ID, PermitEnd{}) }) // it may have been, a moment ago
		all.mu.Unlock()
		return grant, nil
	}
	all.mu.Unlock()
	x.turn.result.Unsent = true
	cancel()
	s.end(x)
	no = &answerDraining
	if full {
		no = &answerPermits
	}
	return Grant{}, no.denied(time.Now())
}

// reachable refuses what a request through abide would not reach either, as far as that is
// known without asking for the addresses of a name.
func (s *Server) reachable(x *exchange) *answer {
	to := x.target
	switch {
	case s.own.named(to.Host, to.Port):
		return &answerLoop
	case x.state.dialer.Named(to.Host, to.Port), x.rule != nil && len(x.rule.Backends) > 0:
		return nil
	}
	if err := x.state.guard.CheckHost(to.Host, to.Port); err != nil {
		return upstreamAnswer(err)
	}
	return nil
}

// outing is the request that somebody wants to send.
func (s *Server) outing(ctx context.Context, a PermitAsk) (*exchange, *http.Request, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, nil, ErrPermitAsk
	}
	target, err := policy.ParseTarget(u.Scheme, u.Host)
	if a.Method == "" {
		a.Method = http.MethodGet
	}
	if err != nil || methodRefusal(a.Method) != nil || a.Method == http.MethodConnect {
		return nil, nil, ErrPermitAsk
	}
	st := s.state.Load()
	x := &exchange{state: st, target: target, start: time.Now(), declared: a.Bytes, lent: true}
	x.wish = wish{cost: a.Cost, client: a.Client, urgency: a.Priority + 1}
	if x.wish.limit(a.Wait); a.Wait > 0 {
		x.wish.limit(max(a.Wait, leastWait))
	}
	for _, c := range st.policy.Access.Clients {
		if c.Name == a.Client {
			x.client = &client{name: c.Name, weight: c.Weight, priority: c.Priority}
		}
	}
	match := st.policy.Match(target)
	x.site, x.rule, x.meter = match.Site, match.Rule, s.metrics.Site(match.Site)
	absolute(u, target)
	keepPath(u)
	r := &http.Request{Method: a.Method, URL: u, Host: u.Host, Header: http.Header{}, Body: http.NoBody}
	x.ctx = pathContext{Context: ctx, x: x}
	return x, r.WithContext(&x.ctx), nil
}

// SettlePermit says what became of a request. It teaches abide what an answer of its
// own would have.
func (s *Server) SettlePermit(id string, e PermitEnd) error {
	all := &s.permits
	all.mu.Lock()
	o := all.out[id]
	delete(all.out, id)
	if o != nil {
		all.ended.Add(1)
	}
	all.mu.Unlock()
	if o == nil {
		return ErrNoPermit
	}
	defer all.ended.Done()
	o.expiry.Stop()
	defer o.cancel()
	defer s.end(o.x)
	x := o.x
	x.answered = time.Now()
	bytes, exact := e.Bytes, e.Bytes > 0
	switch {
	case e.Unsent:
		x.turn.result = queue.Result{Outcome: limit.Abandoned, Unsent: true}
		return nil
	case e.Status > 0:
		resp := &http.Response{StatusCode: e.Status, Header: headerOf(e.Headers), Body: http.NoBody, Request: o.r}
		x.hide(resp)
		resp = s.study(x, o.r, resp)
		v := judge(x.state.policy.Retry, x.attempt(o.r, resp, nil), x.answered, 0.5)
		v = s.credit(x, o.r, resp, v)
		v.again = false // whoever has sent it sends it again, or not
		s.learn(x, e.Status, nil, v)
		x.meter.Request(x.method, e.Status, x.answered.Sub(x.sent))
	}
	if exact {
		x.meter.Read(int(bytes))
		x.turn.result.Bytes, x.turn.result.Exact = bytes, true
		s.sizes.heard(x.site, bytes)
	}
	return nil
}

func headerOf(pairs [][2]string) http.Header {
	h := http.Header{}
	for _, p := range pairs {
		h.Add(strings.TrimSpace(p[0]), p[1])
	}
	return h
}

// end settles all that are out, as if they had been sent.
func (a *permits) end(s *Server) {
	a.mu.Lock()
	a.shut = true
	ids := make([]string, 0, len(a.out))
	for id := range a.out {
		ids = append(ids, id)
	}
	a.mu.Unlock()
	for _, id := range ids {
		_ = s.SettlePermit(id, PermitEnd{}) // it may have been, a moment ago
	}
	a.ended.Wait()
}

// OpenPermits is how many are out.
func (s *Server) OpenPermits() int {
	s.permits.mu.Lock()
	defer s.permits.mu.Unlock()
	return len(s.permits.out)
}
