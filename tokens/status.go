package tokens

import (
	"maps"
	"slices"
	"time"
)

// Status is what people may know of a token.
type Status struct {
	Label       string
	Fingerprint string   // tells secrets apart while this process runs
	Budget      string   // see Token.Budget
	Twins       []string // labels of the others of its account

	Standing          // for every route
	Routes   []Paused // those that are worse off

	Proven    bool      // a site has accepted it
	Accepted  time.Time // when the request had been sent that was accepted last
	Throttled time.Time // when a server refused it last; zero is never

	Uses, Refusals, Denials uint64
}

// Paused is how a route is.
type Paused struct {
	Route string
	Standing
}

// Status is what people may know of the tokens, in order of their labels.
func (p *Pool) Status(now time.Time) []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := map[*account][]string{}
	for _, t := range p.all {
		a := t.state.account.Load()
		by[a] = append(by[a], t.label)
	}
	list := make([]Status, 0, len(p.all))
	for _, t := range slices.SortedFunc(slices.Values(p.all), labelled) {
		s := t.state
		a := s.account.Load()
		one := Status{
			Label: t.label, Fingerprint: t.Fingerprint(), Budget: a.key, Standing: s.standing(now, ""),
			Proven: s.proven, Accepted: s.accepted, Uses: s.uses, Refusals: s.refusals, Denials: s.denials,
		}
		if at := a.throttled.Load(); at != 0 {
			one.Throttled = time.Unix(0, at)
		}
		for _, label := range by[a] {
			if label != t.label {
				one.Twins = append(one.Twins, label)
			}
		}
		for _, route := range slices.Sorted(maps.Keys(a.routes)) {
			if is := s.standing(now, route); is != one.Standing {
				one.Routes = append(one.Routes, Paused{route, is})
			}
		}
		list = append(list, one)
	}
	return list
}
