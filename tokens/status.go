package tokens

import (
	"maps"
	"slices"
	"time"
)

// Status is a token's state for operators. It contains no secret.
type Status struct {
	Label       string
	Fingerprint string   // distinguishes secrets while this process runs
	Budget      string   // see Token.Budget
	Twins       []string // labels of the other tokens of its account

	availability                     // for every route
	Routes       []routeAvailability // routes whose availability differs

	Proven    bool      // a site has accepted the token at some time
	Accepted  time.Time // when the last accepted request was sent
	Throttled time.Time // last refusal by a server; zero: never

	Uses, Refusals, Denials uint64
}

// routeAvailability is a token's availability for one route.
type routeAvailability struct {
	Route string
	availability
}

// Status returns the state of each token, sorted by label.
func (p *Pool) Status(now time.Time) []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := map[*account][]string{}
	for _, t := range p.all {
		a := t.state.account.Load()
		by[a] = append(by[a], t.label)
	}
	list := make([]Status, 0, len(p.all))
	for _, t := range slices.SortedFunc(slices.Values(p.all), byLabel) {
		s := t.state
		a := s.account.Load()
		status := Status{
			Label: t.label, Fingerprint: t.fingerprint(), Budget: a.key, availability: s.availability(now, ""),
			Proven: s.proven, Accepted: s.accepted, Uses: s.uses, Refusals: s.refusals, Denials: s.denials,
		}
		if at := a.throttledAt.Load(); at != 0 {
			status.Throttled = time.Unix(0, at)
		}
		for _, label := range by[a] {
			if label != t.label {
				status.Twins = append(status.Twins, label)
			}
		}
		for _, route := range slices.Sorted(maps.Keys(a.routes)) {
			if availability := s.availability(now, route); availability != status.availability {
				status.Routes = append(status.Routes, routeAvailability{route, availability})
			}
		}
		list = append(list, status)
	}
	return list
}
