package knowledge

import "time"

const (
	// together is how close two tokens are refused on one route, if it is not the tokens
	// that are limited.
	together = 10 * time.Second
	// remembered is for how long an unexplained refusal counts. A second refusal within
	// that time makes a limit.
	remembered = 10 * time.Minute
	// mostRefusals bounds what is kept of routes, whose names strangers choose.
	mostRefusals = 256
)

// refusals are a site's refusals that no announced limit explains. The zero value is empty.
// It is not safe for concurrent use.
type refusals struct {
	last     map[string]refusal // :: route → the last refusal
	episodes map[string]episode // :: template of routes, or "" for the whole site → unexplained refusals
}

// refusal is the last refusal of a route.
type refusal struct {
	budget string
	at     time.Time
}

// episode counts unexplained refusals with successes between them.
type episode struct {
	n     int
	sent  time.Time // a refusal of a request sent before belongs to the last refusal
	first time.Time
}

// shared records that a route was refused with a budget, and tells whether another budget
// was refused shortly before: then the limit is not the token's.
func (r *refusals) shared(now time.Time, route, budget string) bool {
	last, ok := r.last[route]
	if r.last == nil || len(r.last) >= mostRefusals {
		r.last = map[string]refusal{}
	}
	r.last[route] = refusal{budget, now}
	return ok && last.budget != budget && now.Sub(last.at) <= together
}

// unexplained records a refusal that no announced limit explains, and tells whether there
// were enough to assume a limit.
func (r *refusals) unexplained(now time.Time, what string, sent time.Time) bool {
	e := r.episodes[what]
	switch {
	case e.n > 0 && !sent.After(e.sent): // of the same crowd of requests
		if e.n == 1 {
			return false
		}
	case e.n == 0 || now.Sub(e.first) > remembered && e.n == 1:
		e = episode{n: 1, sent: now, first: now}
	default:
		e.n, e.sent = e.n+1, now
	}
	if r.episodes == nil || len(r.episodes) >= mostRefusals && e.n == 1 {
		r.episodes = map[string]episode{}
	}
	r.episodes[what] = e
	return e.n >= 2
}
