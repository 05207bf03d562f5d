package tokens

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// Status returns the state of each token for operators, sorted by label. It contains no secret.
func (p *Pool) Status(now time.Time) status.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.byAccount()
	pool := status.Pool{Name: p.name, Tokens: make([]status.Token, 0, len(p.all))}
	for _, t := range slices.SortedFunc(slices.Values(p.all), byLabel) {
		s := t.state
		a, of := s.account.Load(), s.availability(now, "")
		shown := status.Token{
			Label: t.label, State: of.State.String(), Until: of.Until, Why: of.Why, DeniedBy: of.Site, Fingerprint: t.fingerprint(),
			Uses: s.uses, Refusals: s.refusals, Denials: s.denials, Accepted: s.accepted,
		}
		if at := a.throttledAt.Load(); at != 0 {
			shown.Throttled = time.Unix(0, at)
		}
		for _, twin := range by[a] {
			if twin != t {
				shown.Twins = append(shown.Twins, twin.label)
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
