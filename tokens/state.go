package tokens

import (
	"sync/atomic"
	"time"
)

// State is how a token is.
type State uint8

// The states.
const (
	Ready       State = iota
	Cooling           // a server refused it until some time
	Spent             // nothing is left of what a server or a quota allows
	Quarantined       // a server does not accept it
	Disabled          // by the operator
)

var stateNames = [...]string{"ready", "cooling", "spent", "quarantined", "disabled"}

func (s State) String() string { return stateNames[s] }

// Standing is how a token is, for a route.
type Standing struct {
	State State
	Until time.Time // when that ends; zero for Ready, and for Disabled, which the operator ends
	Why   string
}

// pause is a time for which something may not be used. The zero value is none.
type pause struct {
	until time.Time
	why   string
	spent bool
}

func (p pause) standing() Standing {
	if p.spent {
		return Standing{Spent, p.until, p.why}
	}
	return Standing{Cooling, p.until, p.why}
}

// farthest is how long a pause may be.
const farthest = 10 * 365 * 24 * time.Hour

// mostRoutes is how many routes of an account cool on their own.
const mostRoutes = 256

// account is what a server counts by: usually one token, or several twins. Its
// atomic fields are read by Pick, the others are the pool's.
type account struct {
	key    string
	stable string // the least of the names of all that are known to belong to it

	throttled atomic.Int64  // when a server refused it last, in Unix nanoseconds; 0 is never
	used      atomic.Uint64 // the number of the last turn
	blocked   atomic.Int64  // until when no route may be used

	whole  pause
	routes map[string]pause // :: route → its own
}

// stop keeps a route, or the whole account, from being used before until.
func (a *account) stop(now time.Time, route string, p pause) {
	if !p.until.After(now) {
		return
	}
	if most := now.Add(farthest); p.until.After(most) {
		p.until = most
	}
	if route != "" {
		if _, there := a.routes[route]; !there && len(a.routes) >= mostRoutes {
			a.tidy(now)
			if len(a.routes) >= mostRoutes {
				// The whole account would be too much: what keeps a route back is the
				// queue of its site.
				a.drop()
			}
		}
	}
	if route == "" {
		if p.until.After(a.whole.until) {
			a.whole = p
			a.blocked.Store(p.until.UnixNano())
		}
		return
	}
	if p.until.After(a.routes[route].until) {
		if a.routes == nil {
			a.routes = map[string]pause{}
		}
		a.routes[route] = p
	}
}

func (a *account) tidy(now time.Time) {
	for route, p := range a.routes {
		if !p.until.After(now) {
			delete(a.routes, route)
		}
	}
}

// drop forgets the pause that ends first.
func (a *account) drop() {
	first := ""
	for route, p := range a.routes {
		if first == "" || p.until.Before(a.routes[first].until) {
			first = route
		}
	}
	delete(a.routes, first)
}

// pause is what keeps a route from being used at now.
func (a *account) pause(now time.Time, route string) pause {
	p := a.whole
	if own := a.routes[route]; route != "" && own.until.After(p.until) {
		p = own
	}
	if !p.until.After(now) {
		return pause{}
	}
	return p
}

// join takes over what another account knows.
func (a *account) join(now time.Time, b *account) {
	a.stop(now, "", b.whole)
	for route, p := range b.routes {
		a.stop(now, route, p)
	}
	a.throttled.Store(max(a.throttled.Load(), b.throttled.Load()))
	a.used.Store(max(a.used.Load(), b.used.Load()))
}

// state is what is known of one secret. Its atomic fields are read by Pick, the
// others are the pool's.
type state struct {
	key    string
	stable string

	account atomic.Pointer[account]
	used    atomic.Uint64 // the number of its last turn
	blocked atomic.Int64  // until when it is quarantined
	witness atomic.Int64  // when it was accepted last, unless it was denied since

	disabled     string    // why; "" is not at all
	switched     time.Time // when the operator said so, or the opposite
	switchedHere bool      // to this process
	rejection    rejection
	proven       bool      // it was accepted at some time
	accepted     time.Time // when what was accepted last had been sent
	trial        time.Time // when the request began that tries it again; zero is none
	excused      int       // denials that were held against the request, since it was accepted
	left         time.Time // when it left the pool
	heard        time.Time // the end of the latest quarantine that was heard of

	uses, refusals, denials uint64
}

// rejection is what is known of answers that say that a secret is not accepted.
type rejection struct {
	row   int       // denials in a row
	times int       // quarantines in a row
	since time.Time // of the last quarantine
	until time.Time
	sent  time.Time // when what was denied last had been sent
	why   string
}

func (s *state) standing(now time.Time, route string) Standing {
	if s.disabled != "" {
		return Standing{State: Disabled, Why: s.disabled}
	}
	p := s.account.Load().pause(now, route)
	if q := s.rejection; q.until.After(now) {
		until := q.until
		if p.until.After(until) {
			until = p.until
		}
		return Standing{Quarantined, until, q.why}
	}
	if p.until.IsZero() {
		return Standing{}
	}
	return p.standing()
}

// reject sets what is known of denials. It tells whether that is worth remembering.
func (s *state) reject(r rejection) (news bool) {
	news = r.times != s.rejection.times || !r.until.Equal(s.rejection.until)
	s.rejection = r
	s.blocked.Store(0)
	if !r.until.IsZero() {
		s.blocked.Store(r.until.UnixNano())
	}
	return news
}
