package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/tokens"
)

// slotOfToken is the name of the queue's slot that only cools, one for each token.
const slotOfToken = "token"

// ErrNoPool is for a name that no pool has.
var ErrNoPool = errors.New("there is no such pool")

// pools are the tokens that a configuration names, by the name of their pool. A
// pool outlives the reload that leaves it, with all that is known of its tokens.
type pools map[string]*tokens.Pool

// loadPools reads the tokens of all pools, before anything is changed: a file that
// cannot be read leaves the old configuration as it is.
func (s *Server) loadPools(p *policy.Policy) (map[string]*tokens.Loaded, error) {
	return tokens.LoadAll(p, s.lookup)
}

// take gives pools what was loaded. Those that the old configuration had stay.
func (s *Server) take(p *policy.Policy, loaded map[string]*tokens.Loaded, old pools) (pools, error) {
	next, now := pools{}, time.Now()
	for i := range p.Pools {
		config := p.Pools[i]
		from := loaded[config.Name]
		for _, w := range from.Warnings {
			s.log.Warn(w.String())
		}
		if pool := old[config.Name]; pool != nil {
			change, err := pool.Reload(now, config, from)
			if err != nil {
				return nil, err
			}
			if len(change.Added)+len(change.Removed) > 0 {
				s.log.Infof("the pool %s: tokens added: %s; removed: %s", config.Name, listOf(change.Added), listOf(change.Removed))
			}
			next[config.Name] = pool
			continue
		}
		pool, err := tokens.New(now, config, from, &exchangeTransport{s})
		if err != nil {
			return nil, err
		}
		s.recallTokens(pool, now)
		next[config.Name] = pool
	}
	return next, nil
}

func listOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// close ends pools that the newer ones do not have.
func (p pools) close(newer pools) {
	for name, pool := range p {
		if newer[name] != pool {
			pool.Close()
		}
	}
}

// exchangeTransport sends what client credentials are exchanged with, by the newest
// way to upstreams and under the rules for where anything may go.
type exchangeTransport struct{ *Server }

// RoundTrip is one exchange.
func (t *exchangeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	st := t.state.Load()
	to, err := policy.ParseTarget(r.URL.Scheme, r.URL.Host)
	if err == nil {
		err = st.mayForward(to)
	}
	if err != nil {
		return nil, err
	}
	return st.upstream.RoundTrip(r)
}

// PoolStatus is how a pool is, for people.
type PoolStatus struct {
	Name   string
	Ready  int // tokens that could go now
	Tokens []tokens.Status
}

// Pools are all pools, in order of their names.
func (s *Server) Pools() []PoolStatus {
	now := time.Now()
	var list []PoolStatus
	for name, pool := range s.state.Load().pools {
		one := PoolStatus{Name: name, Tokens: pool.Status(now)}
		for i := range one.Tokens {
			if one.Tokens[i].State == tokens.Ready {
				one.Ready++
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b PoolStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// DisableToken takes a token out of use until EnableToken.
func (s *Server) DisableToken(pool, label string) error {
	p := s.state.Load().pools[pool]
	if p == nil {
		return ErrNoPool
	}
	if err := p.Disable(label, ""); err != nil {
		return err
	}
	s.log.Warnf("the token %s of %s is disabled by the operator", label, pool)
	s.tellSwitches(context.Background(), p) // what fails is told again by tell
	s.switched(nil, false)
	return nil
}

// EnableToken puts a token back into use, out of quarantine too.
func (s *Server) EnableToken(pool, label string) error {
	p := s.state.Load().pools[pool]
	if p == nil {
		return ErrNoPool
	}
	if err := p.Enable(label); err != nil {
		return err
	}
	s.log.Infof("the token %s of %s is enabled by the operator", label, pool)
	s.tellSwitches(context.Background(), p) // what fails is told again by tell
	s.switched(p.Find(label), true)
	return nil
}

// switched is for a token that the operator has disabled or enabled; nil is one that has
// left.
func (s *Server) switched(t *tokens.Token, enabled bool) {
	if enabled && t != nil {
		s.gate.WarmAll(scopeOfToken(t))
	}
	s.learnedSome()
	s.replanAll()
}

// replanAll gives everything that waits the limits of the tokens that there are now.
func (s *Server) replanAll() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	next := *s.state.Load()
	s.publish(&next)
}

func scopeOfToken(t *tokens.Token) queue.Scope {
	return queue.Scope{Limit: slotOfToken, Key: t.Key()}
}
