package sites

import "time"

const (
	// together is how close two tokens are refused on one route, if it is not the tokens
	// that are limited.
	together = 10 * time.Second
	// mostRefusals bounds what is kept of routes, whose names strangers choose.
	mostRefusals = 256
)

// refusals are a site's refusals that no announced limit explains. The zero value is empty.
// It is not safe for concurrent use.
type refusals struct {
	last map[string]refusal // :: route → the last refusal
}

// refusal is the last refusal of a route.
type refusal struct {
	budget string
	at     time.Time
}

// shared records that a route was refused with a budget, and tells whether another budget
// was refused shortly before: then the limit may not be the token's.
func (r *refusals) shared(now time.Time, route, budget string) bool {
	last, ok := r.last[route]
	if r.last == nil || len(r.last) >= mostRefusals {
		r.last = map[string]refusal{}
	}
	r.last[route] = refusal{budget, now}
	return ok && last.budget != budget && now.Sub(last.at) <= together
}
