package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Explanation is what a request would meet if it came now.
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
	// Client is for whom it is explained. ClientGuessed says that the question named
	// none, so that it is the client with the most requests waiting at the site, or a
	// crawler on this machine where none waits.
	Client        string `json:"client,omitempty"`
	ClientGuessed bool   `json:"client_guessed,omitempty"`

	Held     int `json:"held"`      // requests that wait at the site
	InFlight int `json:"in_flight"` // requests of the site that are on their way
	// Place would be the request's own, 1 for the next. Expected is when it would
	// go, zero if nobody knows.
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

	Limits   []LimitNow   `json:"limits"`
	Breaker  string       `json:"breaker,omitempty"`      // closed, half-open, open
	Tries    time.Time    `json:"breaker_tries,omitzero"` // when an open one lets a request try
	Failed   string       `json:"breaker_why,omitempty"`  // why the site failed last
	Backends []BackendNow `json:"backends,omitempty"`

	// What follows from all that, for people. The listener writes them.
	BlockedBy   string   `json:"blocked_by"`
	WouldChange []string `json:"would_change"`
}

// LimitNow is a limit that the request would take from.
type LimitNow struct {
	Limit string `json:"limit"`
	Of    string `json:"of,omitempty"` // whose it is, when each has its own
	Left  int64  `json:"left"`         // -1: it has no amount

	Rate    float64 `json:"rate,omitempty"`    // what an adaptive limit allows now, per second
	Learned bool    `json:"learned,omitempty"` // the site has taught it
	// Next is when it would let the request go, were there no other limit; zero is
	// when something else is over. The listener says with Keeps whether that is yet
	// to come, and leaves out what is past.
	Next     time.Time `json:"next,omitzero"`
	Keeps    bool      `json:"keeps"`
	Asks     bool      `json:"asks_store,omitempty"` // the store is asked what is left
	Cooling  time.Time `json:"cooling_until,omitzero"`
	Why      string    `json:"why,omitempty"` // who asked for the pause
	Held     int       `json:"held"`
	InFlight int64     `json:"in_flight"`
}

// BackendNow is one of several backends of the site.
type BackendNow struct {
	Backend  string    `json:"backend"`
	Breaker  string    `json:"breaker,omitempty"`
	Tries    time.Time `json:"breaker_tries,omitzero"`
	InFlight int64     `json:"in_flight"`
}

// Bounds of what may be asked for, and of what an error may say.
const (
	maxURL    = 8 << 10
	maxMethod = 32
	maxClient = 64
	maxDetail = 300
)

// far is later than anything that is known: it stands for "when something else
// is over".
const far = 5 * 365 * 24 * time.Hour

// explain tells what ?url= would meet now, asked for with ?method= by ?client=.
func (d *desk) explain(w http.ResponseWriter, r *http.Request) {
	if d.Explain == nil {
		refuse(w, http.StatusNotImplemented, "this process has nothing to explain")
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the query cannot be read")
		return
	}
	for name, most := range map[string]int{"url": maxURL, "method": maxMethod, "client": maxClient} {
		if n := len(query[name]); n > 1 || len(query.Get(name)) > most {
			refuse(w, http.StatusBadRequest, name+" is there more than once, or too long")
			return
		}
	}
	if query.Get("url") == "" {
		refuse(w, http.StatusBadRequest, "url is missing: /api/v1/explain?url=https://example.com/path")
		return
	}
	method := cmp.Or(query.Get("method"), http.MethodGet)
	if strings.ContainsFunc(method, notInMethod) {
		refuse(w, http.StatusBadRequest, "method is none")
		return
	}
	e, err := d.Explain(method, query.Get("url"), query.Get("client"))
	if err != nil {
		refuse(w, http.StatusBadRequest, detailOf(err))
		return
	}
	answerJSON(w, e.finished(time.Now()))
}

// notInMethod is stricter than RFC 9110 needs: no method that anybody uses has
// anything else.
func notInMethod(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-'
}

// detailOf is one line of bounded length.
func detailOf(err error) string {
	text := strings.Map(printable, strings.ToValidUTF8(err.Error(), "\uFFFD"))
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "…"
	}
	return text
}

// known is a time in UTC, zero for one that stands for "not known".
func known(at, now time.Time) time.Time {
	if at.Sub(now) > far {
		return time.Time{}
	}
	return at.UTC()
}

// finished has its sentences, no null lists, and its times in UTC.
func (e Explanation) finished(now time.Time) Explanation {
	if !e.UnreadUntil.IsZero() {
		e.UnreadUntil = e.UnreadUntil.UTC()
	}
	e.Until, e.Expected, e.Tries = known(e.Until, now), known(e.Expected, now), known(e.Tries, now)
	limits := make([]LimitNow, len(e.Limits))
	for i, one := range e.Limits {
		one.Next, one.Cooling = known(one.Next, now), known(one.Cooling, now)
		one.Rate = finite(one.Rate)
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
