package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// Pool is the tokens of one name, and what is known of them, across reloads. It is
// safe for concurrent use; nothing waits under its lock. New makes one, Set is what
// a request begins with.
type Pool struct {
	name    string
	set     atomic.Pointer[Set]
	turns   atomic.Uint64 // of all picks
	errands *errands

	version atomic.Uint64 // of what State says

	mu      sync.Mutex
	all     []*Token          // disabled ones, too, in the order of the source
	states  map[id]*state     // :: secret → what is known; also of those that left a while ago
	known   map[string]*state // :: Stable → the same
	kept    map[string]Memory // :: Stable → what is remembered of those that are not known
	budgets map[string]string // :: Budget → Pool.Stable; nil is not made yet
}

// Set is the tokens that requests may use, between two changes. It does not change.
type Set struct {
	pool     *Pool
	number   uint64
	tokens   []*Token
	states   []*state // of the tokens, for Pick
	put      *Put
	exchange *exchange // nil: the secrets are what is sent
}

// New makes a pool of what was loaded. The transport is for the exchange of client
// credentials; without oauth2 it may be nil.
func New(now time.Time, config policy.Pool, l *Loaded, transport http.RoundTripper) (*Pool, error) {
	p := &Pool{name: config.Name, states: map[id]*state{}, known: map[string]*state{}, kept: map[string]Memory{}, errands: newErrands(transport)}
	if _, err := p.Reload(now, config, l); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends what the pool does on its own, and waits for it.
func (p *Pool) Close() { p.errands.close() }

// Name is the pool's in the configuration.
func (p *Pool) Name() string { return p.name }

// Set is the tokens to choose from now.
func (p *Pool) Set() *Set { return p.set.Load() }

// Format shows the name alone.
func (p *Pool) Format(f fmt.State, verb rune) { show(f, verb, p.name) }

// MarshalText covers JSON and YAML.
func (p *Pool) MarshalText() ([]byte, error) { return []byte(p.name), nil }

// Number grows whenever a request that waits should be given other alternatives:
// after a reload, and when a token was disabled, enabled or united.
func (s *Set) Number() uint64 { return s.number }

// Tokens are those that the operator has not disabled. The slice may not be changed.
func (s *Set) Tokens() []*Token { return s.tokens }

// Put is where a token goes.
func (s *Set) Put() *Put { return s.put }

// Credential is what is sent for a token: its secret, or what that was exchanged
// for. It may wait for a server. The error is the context's or an *ExchangeError.
func (s *Set) Credential(ctx context.Context, t *Token) (policy.Secret, error) {
	if s.exchange == nil {
		return t.secret, nil
	}
	return s.exchange.credential(ctx, t)
}

// Renew is for an exchanged credential that the site has refused. It tells whether
// Credential may give a better one; if not, the token itself is to blame.
func (s *Set) Renew(now time.Time, t *Token, refused policy.Secret) bool {
	return s.exchange != nil && s.exchange.drop(now, t, refused)
}

// Format shows the pool's name alone.
func (s *Set) Format(f fmt.State, verb rune) { show(f, verb, s.pool.name) }

// MarshalText covers JSON and YAML.
func (s *Set) MarshalText() ([]byte, error) { return []byte(s.pool.name), nil }

// Cool says that a server has refused an account until a time: one route of it, or
// all of it if the route is "". It never shortens what is known.
func (p *Pool) Cool(now time.Time, t *Token, route string, until time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := t.state.account.Load()
	a.stop(now, route, pause{until: until, why: why})
	a.throttled.Store(max(a.throttled.Load(), now.UnixNano()))
	t.state.refusals++
}

// Spend says that nothing is left of an account's allowance until a time. Nobody
// has been refused, so it is not throttled by that.
func (p *Pool) Spend(now time.Time, t *Token, route string, until time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.state.account.Load().stop(now, route, pause{until: until, why: why, spent: true})
}

// Standing is how a token is for a route.
func (p *Pool) Standing(now time.Time, t *Token, route string) Standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.state.standing(now, route)
}

// patience is how long one request tries a token again before another may.
const patience = 30 * time.Second

// Begin says that a request is about to be sent with a token. It answers zero, or
// until when it must not be: another site may have found out since the request was
// let go, or another request may just be trying a token that was quarantined.
func (p *Pool) Begin(now time.Time, t *Token, route string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := t.state
	switch is := s.standing(now, route); is.State {
	case Ready:
	case Disabled:
		return now.Add(farthest)
	default:
		return is.Until
	}
	if s.rejection.times > 0 { // it comes from quarantine
		if over := s.trial.Add(patience); !s.trial.IsZero() && over.After(now) {
			return over
		}
		s.trial = now
	}
	s.uses++
	p.turn(t)
	return time.Time{}
}

// Leave says that a request has ended without a word on the token: the server was
// not reached, or the client hung up. began is the time that Begin was told.
func (p *Pool) Leave(t *Token, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.state.trial.Equal(began) {
		t.state.trial = time.Time{}
	}
}

// ErrNoToken is for a label that no token of the pool has.
var ErrNoToken = errors.New("the pool has no such token")

// Disable takes a token out of use, until Enable.
func (p *Pool) Disable(label, why string) error {
	if why == "" {
		why = "by the operator"
	}
	return p.able(label, why)
}

// Enable puts a token back into use. It also ends its quarantine: the operator
// knows better.
func (p *Pool) Enable(label string) error { return p.able(label, "") }

func (p *Pool) able(label, disabled string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.find(label)
	if t == nil {
		return ErrNoToken
	}
	s, given := t.state, time.Now()
	if !given.After(s.switched) {
		given = s.switched.Add(1) // the clock of who gave the last one is ahead
	}
	s.switched, s.switchedHere = given, true
	p.use(s, disabled)
	return nil
}

// Find is the token with a label, or nil.
func (p *Pool) Find(label string) *Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(label)
}

func (p *Pool) find(label string) *Token {
	i := slices.IndexFunc(p.all, func(t *Token) bool { return t.label == label })
	if i < 0 {
		return nil
	}
	return p.all[i]
}

// publish makes a new set, by the old one where like is nil.
func (p *Pool) publish(like *Set) {
	next := &Set{pool: p, number: 1}
	if old := p.set.Load(); old != nil {
		*next = *old
		next.number++
	}
	if like != nil {
		next.put, next.exchange = like.put, like.exchange
	}
	next.tokens, next.states = nil, nil
	for _, t := range p.all {
		if t.state.disabled == "" {
			next.tokens, next.states = append(next.tokens, t), append(next.states, t.state)
		}
	}
	p.budgets = nil
	p.set.Store(next)
}
