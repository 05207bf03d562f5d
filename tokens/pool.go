package tokens

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// Pool has the tokens of one name and their state, across reloads. It is safe for
// concurrent use; nothing waits under its lock. New makes a pool; a request begins with
// Set.
type Pool struct {
	name
	set       atomic.Pointer[Set]
	uses      atomic.Uint64 // counts all uses of tokens
	exchanges *exchanges

	version atomic.Uint64 // see Version

	mu       sync.Mutex
	all      []*Token              // includes disabled tokens, in the order of the source
	states   map[id]*state         // :: hash of the secret → state; includes tokens that left within retention
	byStable map[string]*state     // :: Stable → the same states
	restored map[string]SavedState // :: Stable → restored states of tokens that are not in the pool
	refusing map[string]refusals   // :: route that refuses all tokens → since when, and how often
	budgets  map[string]string     // :: Budget → Pool.Stable; nil until first used
}

// Set is the list of enabled tokens between two changes of the pool. It is immutable.
type Set struct {
	name      // of the pool
	pool      *Pool
	number    uint64 // grows with each set of the pool that offers other tokens
	tokens    []*Token
	placement *placement
	exchange  *exchange // nil: the secrets themselves are sent
}

// New makes a pool of loaded tokens. The transport is used to exchange client credentials;
// without oauth2 it may be nil.
func New(now time.Time, config policy.Pool, l *Loaded, transport http.RoundTripper) (*Pool, error) {
	p := &Pool{name: name{config.Name}, states: map[id]*state{}, byStable: map[string]*state{}, refusing: map[string]refusals{}, restored: map[string]SavedState{}, exchanges: newExchanges(transport)}
	if _, err := p.Reload(now, config, l); err != nil {
		return nil, err
	}
	return p, nil
}

// Close cancels running exchanges and waits for their end.
func (p *Pool) Close() { p.exchanges.End() }

// Name is the pool's name in the configuration.
func (p *Pool) Name() string { return p.shown }

// Set returns the current tokens.
func (p *Pool) Set() *Set { return p.set.Load() }

// Tokens are the enabled tokens. The slice may not be changed.
func (s *Set) Tokens() []*Token { return s.tokens }

// Placement tells where in a request the token goes.
func (s *Set) Placement() *placement { return s.placement }

// Credential returns the secret that is sent for a token: its own secret, or the access
// token it was exchanged for. It may wait for the server of the exchange. The error is the
// context's or an *ExchangeError.
func (s *Set) Credential(ctx context.Context, t *Token) (policy.Secret, error) {
	if s.exchange == nil {
		return t.secret, nil
	}
	return s.exchange.credential(ctx, t)
}

// Renew drops an exchanged credential that the site has refused. It returns true if
// Credential may return a better one; otherwise the token itself was refused.
func (s *Set) Renew(now time.Time, t *Token, refused policy.Secret) bool {
	return s.exchange != nil && s.exchange.invalidate(now, t, refused)
}

// Cool records that a server has refused an account until a time: for one route, or for all
// if route is "". It never shortens a pause.
func (p *Pool) Cool(now time.Time, t *Token, route string, until time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := t.state.account.Load()
	a.pauseUntil(now, route, availability{State: Cooling, Until: until, Why: why})
	a.throttledAt.Store(max(a.throttledAt.Load(), now.UnixNano()))
	t.state.refusals++
}

// Spend records that an account's allowance is used up until a time. No request was
// refused, so the account does not count as throttled.
func (p *Pool) Spend(now time.Time, t *Token, route string, until time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.state.account.Load().pauseUntil(now, route, availability{State: Spent, Until: until, Why: why})
}

// Availability returns whether a token may be used for a route. The name of a route begins with its
// site; "" is every route.
func (p *Pool) Availability(now time.Time, t *Token, route string) availability {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.state.availability(now, route)
}

// trialTimeout is the time for which a request has the exclusive right to try a token that
// comes from quarantine.
const trialTimeout = 30 * time.Second

// Begin announces that a request is about to be sent with a token, to a site or a route of it. It returns zero, or the
// time before which the token must not be used: another site may have refused it since it
// was chosen, or another request may be trying a token that was quarantined.
func (p *Pool) Begin(now time.Time, t *Token, route string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := t.state
	switch availability := s.availability(now, route); availability.State {
	case Ready:
	case Disabled:
		return now.Add(maxPause)
	default:
		return availability.Until
	}
	if s.rejection.quarantinesInRow > 0 && s.rejection.covers(siteOf(route)) { // its quarantine has just ended
		if over := s.trialSince.Add(trialTimeout); !s.trialSince.IsZero() && over.After(now) {
			return over
		}
		s.trialSince = now
	}
	s.uses++
	p.markUsed(t)
	return time.Time{}
}

// EndWithoutAnswer records that a request has ended without an answer about the token: the
// server was not reached, or the client disconnected. began is the time that was passed to
// Begin.
func (p *Pool) EndWithoutAnswer(t *Token, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.state.trialSince.Equal(began) {
		t.state.trialSince = time.Time{}
	}
}

// errNoToken is returned for a label that no token of the pool has.
var errNoToken = errors.New("the pool has no such token")

// Switch takes a token out of use for a reason, or, with "", puts it back into use and ends its quarantine. It returns
// the command.
func (p *Pool) Switch(label, disabled string) (Switch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.find(label)
	if t == nil {
		return Switch{}, errNoToken
	}
	s, given := t.state, time.Now()
	if !given.After(s.switchedAt) {
		given = s.switchedAt.Add(1) // the clock behind the last switch was ahead
	}
	s.switchedAt, s.switchedHere = given, true
	p.setDisabled(s, disabled)
	return s.command(), nil
}

// Find returns the token with a label, or nil.
func (p *Pool) Find(label string) *Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(label)
}

func (p *Pool) find(label string) *Token {
	return p.first(func(t *Token) bool { return t.shown == label })
}

// first returns the first token that fits, or nil. The caller holds the lock.
func (p *Pool) first(fits func(*Token) bool) *Token {
	if i := slices.IndexFunc(p.all, fits); i >= 0 {
		return p.all[i]
	}
	return nil
}

// publish makes a new set from p.all. Placement and exchange are those of like, or of the
// old set if like is nil.
func (p *Pool) publish(like *Set) {
	next := &Set{name: p.name, pool: p, number: 1}
	if old := p.set.Load(); old != nil {
		*next = *old
		next.number++
	}
	if like != nil {
		next.placement, next.exchange = like.placement, like.exchange
	}
	next.tokens = lists.Only(p.all, func(t *Token) bool { return t.state.disabled == "" })
	p.budgets = nil
	p.set.Store(next)
}

// Status returns the state of each token for operators, sorted by label. It contains no secret.
func (p *Pool) Status(now time.Time) status.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.byAccount()
	pool := status.Pool{Name: p.shown, Tokens: make([]status.Token, 0, len(p.all))}
	for _, t := range slices.SortedFunc(slices.Values(p.all), func(a, b *Token) int { return cmp.Compare(a.shown, b.shown) }) {
		s := t.state
		a, of := s.account.Load(), s.availability(now, "")
		shown := status.Token{
			Label: t.shown, State: of.State.String(), Until: of.Until, Why: of.Why, DeniedBy: of.Site, Fingerprint: t.id.String(),
			Uses: s.uses, Refusals: s.refusals, Denials: s.denials, Accepted: s.accepted,
		}
		if at := a.throttledAt.Load(); at != 0 {
			shown.Throttled = time.Unix(0, at)
		}
		for _, twin := range by[a] {
			if twin != t {
				shown.Twins = append(shown.Twins, twin.shown)
			}
		}
		for _, route := range slices.Sorted(maps.Keys(a.routes)) {
			if at := s.availability(now, route); at != of {
				shown.Routes = append(shown.Routes, status.Paused{Route: route, State: at.State.String(), Until: at.Until, Why: at.Why})
			}
		}
		if of.State == Ready { // it could go now
			pool.Ready++
		}
		pool.Tokens = append(pool.Tokens, shown)
	}
	return pool
}

// byAccount returns the tokens of each account. The caller holds the lock.
func (p *Pool) byAccount() map[*account][]*Token {
	by := map[*account][]*Token{}
	for _, t := range p.all {
		a := t.state.account.Load()
		by[a] = append(by[a], t)
	}
	return by
}

// Labels returns the labels of the tokens of each budget, sorted and in one text.
func (p *Pool) Labels() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	labels := map[string]string{}
	for a, list := range p.byAccount() {
		labels[a.key] = strings.Join(slices.Sorted(slices.Values(lists.Map(list, (*Token).Label))), ", ")
	}
	return labels
}

// Rank returns the place of a token in the order in which tokens are chosen, by its index in
// Tokens, as queue.Ranking describes: the token whose account was throttled longest ago is the
// first, then the one whose account, and which itself, was used longest ago. An index beyond
// Tokens is a request without a token, which is chosen last. After a denial, listed in d, the
// token that was accepted most recently is the first: if that token is denied, too, the tokens
// are not the cause. d may be nil. Without a denial no rank ever falls. Rank takes no lock and
// allocates nothing, so the queue may call it while it holds its own lock.
func (s *Set) Rank(i int, d *Denials) [4]uint64 {
	const class = 1 << 62
	if i >= len(s.tokens) {
		return [4]uint64{3 * class}
	}
	st := s.tokens[i].state
	a := st.account.Load()
	rank := [4]uint64{1: uint64(max(a.throttledAt.Load(), 0)), 2: a.used.Load(), 3: st.used.Load()}
	if d != nil && d.n > 0 {
		rank[0] = class - 1 - uint64(max(st.lastAccepted.Load(), 0))
		if d.has(st) {
			rank[0] += 2 * class
		}
	}
	return rank
}

// Over tells which tokens a request passes over: those that it was denied with and that were never
// accepted, while another token is left. It waits for that. nil: none.
func (s *Set) Over(now time.Time, d *Denials) []bool {
	if d.n == 0 { // as for nearly all requests, which take no lock
		return nil
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if !s.pool.hasOthers(now, d.list[0].token, d.list[0].answer.Site, d) {
		return nil
	}
	return lists.Map(s.tokens, func(t *Token) bool { return d.has(t.state) && !t.state.proven })
}

// Rests returns until when a token is blocked because of another site's answer, of which the
// queue of a site does not know: such a token is chosen only if no other may be used.
func (s *Set) Rests(i int) time.Time {
	if i >= len(s.tokens) {
		return time.Time{}
	}
	st := s.tokens[i].state
	return time.Unix(0, max(st.blockedUntil.Load(), st.account.Load().blockedUntil.Load()))
}

// Chosen records that a token is used now.
func (s *Set) Chosen(i int) {
	if i < len(s.tokens) {
		s.pool.markUsed(s.tokens[i])
	}
}

// markUsed records that a token is used now. A counter, not the time, orders uses that
// happen at the same moment.
func (p *Pool) markUsed(t *Token) {
	n := p.uses.Add(1)
	t.state.used.Store(n)
	t.state.account.Load().used.Store(n)
}
