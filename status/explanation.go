package status

import (
	"slices"
	"time"
)

// Explanation describes what would happen to a request now.
type Explanation struct {
	Target      string `json:"target"` // scheme://host:port; no path, no query
	Site        string `json:"site"`
	Rule        string `json:"rule,omitempty"`
	Intercepted bool   `json:"intercepted"` // of https: its requests are seen and counted
	// Unread is why https passes unread (auto, unlisted, none, excluded, refused,
	// constrained), UnreadUntil is until when, for a client that refused the certificate
	// of abide's CA. OpenedAt is the address where it is opened all the same.
	Unread      string    `json:"unread,omitempty"`
	UnreadUntil time.Time `json:"unread_until,omitzero"`
	OpenedAt    string    `json:"opened_at,omitempty"`
	Observed    bool      `json:"observed"` // mode: observe, so nothing is held back
	// Client is the client of the explained request. ClientGuessed says that the question named
	// none, so that it is the client with the most requests waiting at the site, or a
	// crawler on this machine where none waits.
	Client        string `json:"client,omitempty"`
	ClientGuessed bool   `json:"client_guessed,omitempty"`

	// Refused is why abide answers the client with 403: an entry of access.clients, or
	// egress.hosts. What follows is zero then.
	Refused string `json:"refused,omitempty"`

	Held     int `json:"held"`      // requests that wait at the site
	InFlight int `json:"in_flight"` // requests of the site that are on their way
	// Place is the place that the request would have, 1 for the next to go. Expected is
	// the time at which it would go, zero if unknown.
	Place    int       `json:"place"`
	Expected time.Time `json:"expected,omitzero"`

	// Limit would keep it until Until, when Why tells who said so ("Retry-After").
	// A zero Until is until something else is over.
	Limit string    `json:"limit,omitempty"`
	Why   string    `json:"why,omitempty"`
	Until time.Time `json:"until,omitzero"`
	First bool      `json:"others_first"` // there is enough, but others are before it
	Asks  bool      `json:"asks_store"`   // the store is asked what is left of the limit
	Never bool      `json:"never"`        // it costs more than the limit ever has

	Limits   []ExplainedLimit   `json:"limits"`
	Breaker  string             `json:"breaker,omitempty"`      // closed, half-open, open
	Tries    time.Time          `json:"breaker_tries,omitzero"` // when an open one lets a request try
	Failed   string             `json:"breaker_why,omitempty"`  // why the site failed last
	Backends []ExplainedBackend `json:"backends,omitempty"`

	// What follows from all that, for people. The listener writes them.
	BlockedBy   string   `json:"blocked_by"`
	WouldChange []string `json:"would_change"`
}

// AddClient adds the explanation of the limits that the client has for all its requests. They are
// first: a request goes to the queue of its site after them.
func (e *Explanation) AddClient(client Explanation) {
	e.Limits = append(client.Limits, e.Limits...)
	if client.Limit == "" || client.Expected.Before(e.Expected) && !client.Expected.IsZero() {
		return
	}
	e.Place, e.Expected, e.Limit, e.Why, e.Until = client.Place, client.Expected, client.Limit, client.Why, client.Until
	e.First, e.Asks, e.Never = client.First, client.Asks, client.Never
}

// ExplainedLimit is a limit that the request would take from.
type ExplainedLimit struct {
	Limit string `json:"limit"`
	Of    string `json:"of,omitempty"` // whose it is, when each has its own
	Left  int64  `json:"left"`         // -1: it has no amount

	Rate    float64 `json:"rate,omitempty"`    // what an adaptive limit allows now, per second
	Learned bool    `json:"learned,omitempty"` // the site has taught it
	// Next is the time at which the limit alone would let the request go; zero: when
	// something else is over. The API tells with Keeps whether that time is yet to come,
	// and leaves out what is past.
	Next     time.Time `json:"next,omitzero"`
	Keeps    bool      `json:"keeps"`
	Asks     bool      `json:"asks_store,omitempty"` // the store is asked what is left
	Cooling  time.Time `json:"cooling_until,omitzero"`
	Why      string    `json:"why,omitempty"` // who asked for the pause
	Held     int       `json:"held"`          // requests that wait for it
	InFlight int64     `json:"in_flight"`
	// Unused says that another token or backend is ready sooner, so that the request does not wait for
	// this limit. GuessedWindow is the time that its window is taken to last, as nothing tells it yet.
	Unused        bool    `json:"unused,omitempty"`
	GuessedWindow float64 `json:"guessed_window_seconds,omitempty"`
}

// ExplainedBackend is one of several backends of the site.
type ExplainedBackend struct {
	Backend  string    `json:"backend"`
	Breaker  string    `json:"breaker,omitempty"`
	Tries    time.Time `json:"breaker_tries,omitzero"`
	InFlight int64     `json:"in_flight"`
}

// Normalize has its sentences, no null lists, and its times in UTC.
func (e Explanation) Normalize(now time.Time) Explanation {
	if !e.UnreadUntil.IsZero() {
		e.UnreadUntil = e.UnreadUntil.UTC()
	}
	e.Until, e.Expected, e.Tries = known(e.Until, now), known(e.Expected, now), known(e.Tries, now)
	limits := make([]ExplainedLimit, len(e.Limits))
	for i, one := range e.Limits {
		one.Next, one.Cooling = known(one.Next, now), known(one.Cooling, now)
		one.Rate = Finite(one.Rate)
		one.Keeps = one.Next.After(now) || one.Cooling.After(now) || one.Next.IsZero() && one.Left >= 0
		if !one.Keeps {
			one.Next = time.Time{}
		}
		limits[i] = one
	}
	e.Limits = limits
	e.Backends = slices.Clone(e.Backends)
	for i := range e.Backends {
		e.Backends[i].Tries = known(e.Backends[i].Tries, now)
	}
	switch {
	case e.Observed:
		e.Expected = now.UTC()
	case e.broken():
		e.Expected = time.Time{} // it does not wait: it is refused
	}
	e.BlockedBy, e.WouldChange = e.blockedBy(now), e.wouldChange(now)
	return e
}
