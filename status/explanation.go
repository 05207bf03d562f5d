package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
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
	// none, so that it is the client with the most requests waiting at the site, or, where none waits, the
	// first of access.clients, or a crawler on this machine.
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
	First bool      `json:"others_first"`         // there is enough, but others are before it
	Asks  bool      `json:"asks_store"`           // the store is asked what is left of the limit
	Away  bool      `json:"store_away,omitempty"` // the store is away, so the answer comes when the store is back
	Never bool      `json:"never"`                // it costs more than the limit ever has
	// Shared: other processes use a limit that it needs, so that it may go later than Expected.
	Shared bool `json:"shared,omitempty"`

	Limits   []ExplainedLimit   `json:"limits"`
	Breaker  string             `json:"breaker,omitempty"`      // closed, failing, half-open, open
	Tries    time.Time          `json:"breaker_tries,omitzero"` // when an open one lets a request try
	Failed   string             `json:"breaker_why,omitempty"`  // why the site failed last
	CanTry   bool               `json:"can_try,omitempty"`      // the site fails, and POST /api/v1/sites/{site}/try ends the pause
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
	e.First, e.Asks, e.Never, e.Shared = client.First, client.Asks, client.Never, client.Shared
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
	// Unknown says that no answer has told yet what is left. Left is then what may go before one has.
	Unknown bool `json:"unknown,omitempty"`
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
	e.UnreadUntil, e.Until, e.Expected, e.Tries = e.UnreadUntil.UTC(), known(e.Until, now), known(e.Expected, now), known(e.Tries, now)
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
	case e.broken(), e.Away: // it is refused, or nobody knows when the store is back
		e.Expected = time.Time{}
	}
	e.BlockedBy, e.WouldChange = e.keeper(now), e.wouldChange(now)
	if e.BlockedBy != "" && e.Observed {
		e.BlockedBy += "; but mode is observe, so it goes at once"
	}
	return e
}

// Describe writes the explanation for people, as it came from the listener.
// What it says is of the process that was asked, so nothing in it can steer a
// terminal.
func (e Explanation) Describe(w io.Writer, now time.Time) {
	var b strings.Builder
	defer func() { _, _ = io.WriteString(w, b.String()) }()
	last := ""
	line := func(name, format string, args ...any) { // name stands before the first of its lines
		shown := name
		if name == last {
			shown = ""
		}
		last = name
		fmt.Fprintf(&b, "%-15s %s\n", shown, strings.Map(Printable, fmt.Sprintf(format, args...)))
	}
	if e.Client != "" {
		hint := ""
		switch {
		case e.ClientGuessed && e.Held > 0:
			hint = ", who has the most requests waiting; --client names another"
		case e.ClientGuessed:
			hint = ", assumed; --client names another"
		}
		line("client", "%s%s", e.Client, hint)
	}
	if e.Refused != "" {
		line("refused", "with 403: %s", e.Refused)
		return
	}
	if strings.HasPrefix(e.Target, "https:") {
		if e.OpenedAt == "" {
			line("CONNECT", "%s", e.https())
		} else {
			line("CONNECT", "intercepted for clients that use %s (abide env): their requests are seen", e.OpenedAt)
			line("CONNECT", "for others it %s", e.https())
		}
	}
	line("now", "%s, %d in flight", Number(e.Held, "request waits", "requests wait"), e.InFlight)
	if e.BlockedBy == "" {
		line("blocked by", "nothing")
	} else {
		line("blocked by", "%s", e.BlockedBy)
		line("place", "%d", e.Place)
		switch {
		case e.Expected.IsZero():
			line("expected", "not known")
		case e.Shared:
			line("expected", "%s at the earliest: other processes use the limit, too", when(e.Expected, now))
		case e.Why != "" && e.CanTry:
			line("expected", "%s, if the site accepts a request then", when(e.Expected, now))
		default:
			line("expected", "%s", when(e.Expected, now))
		}
	}
	for _, one := range e.WouldChange {
		line("would change", "%s", one)
	}
	away := map[string]bool{} // :: token or other that pauses
	for _, one := range e.Limits {
		away[one.Of] = away[one.Of] || one.Of != "" && one.Unused && one.Cooling.After(now)
	}
	names := map[bool]string{false: "left", true: "not used"}
	for _, unused := range []bool{false, true} {
		for _, one := range e.Limits {
			if one.Unused == unused && (!away[one.Of] || one.Cooling.After(now)) {
				line(names[unused], "%s", one.describe(now))
			}
		}
	}
	if e.Breaker != "" && e.Breaker != "closed" {
		line("breaker", "%s%s", BreakerWord(e.Breaker), e.last())
	}
	for _, one := range e.Backends {
		line("backends", "%s: %s, %d in flight", one.Backend, BreakerWord(one.Breaker), one.InFlight)
	}
}

// https says what becomes of the https of the request.
func (e Explanation) https() string {
	switch {
	case e.Intercepted:
		return "intercepted: its requests are seen"
	case !e.UnreadUntil.IsZero():
		return "passes unread until " + e.UnreadUntil.UTC().Format("2006-01-02 15:04:05 UTC") + " because the client refused abide's certificate"
	case e.Unread != "":
		return "passes unread: " + UnreadReason{Reason: e.Unread}.Why()
	}
	return "passes unread"
}

// describe says what is left of a limit, and when there is more.
func (l ExplainedLimit) describe(now time.Time) string {
	text := l.name() + ": "
	switch {
	case l.Cooling.After(now):
		text += "pauses until " + when(l.Cooling, now)
		if l.Why != "" {
			text += " (" + l.Why + ")"
		}
	case l.Left < 0:
		text += "no pause"
	case l.Rate > 0:
		text += RateText(l.Rate) + " now"
		if l.Keeps {
			text += ", the next " + soon(l.Next, now)
		}
	case IsPause(l.Limit):
		text += "nothing goes"
	case l.Asks:
		text += "the store is asked what is left"
	case l.Unknown:
		text += "not known, no answer has told"
	case l.Left >= unbounded:
		text += "nothing is known that keeps it"
	case l.Keeps:
		text += fmt.Sprintf("%d left, enough %s", l.Left, soon(l.Next, now))
	default:
		text += fmt.Sprintf("%d left", l.Left)
	}
	if l.GuessedWindow > 0 {
		text += fmt.Sprintf("; its window is not known yet, taken as %.0f s", l.GuessedWindow)
	}
	if l.Held > 0 {
		text += "; " + Number(l.Held, "waits", "wait") + " for it"
	}
	if l.InFlight > 0 {
		text += fmt.Sprintf("; %d in flight", l.InFlight)
	}
	return text
}

// soon returns a time as text: "when another is done" for the zero time.
func soon(at, now time.Time) string {
	if at.IsZero() {
		return "when another is done"
	}
	return "at " + when(at, now)
}

// keeper says what would keep the request, "" if nothing would.
func (e Explanation) keeper(now time.Time) string {
	switch {
	case e.Never:
		return fmt.Sprintf("%q never has enough for what it costs, so it is refused", e.Limit)
	case e.Breaker == "open":
		return "the breaker of the site is open, because it failed several times in a row" + e.last() + ": nothing goes" + Until(e.Tries, now) + ", then single requests try it, and others wait for that or get 503"
	case e.allOpen():
		first := slices.MinFunc(e.Backends, func(a, b ExplainedBackend) int { return a.Tries.Compare(b.Tries) })
		return fmt.Sprintf("the breakers of all %d backends are open, because they failed several times in a row: nothing goes%s, then single requests try them, and others wait for that or get 503", len(e.Backends), Until(first.Tries, now))
	case e.Why != "":
		return fmt.Sprintf("%q pauses (%s), until %s", cmp.Or(e.Limit, e.Site), e.Why, when(e.Until, now))
	case IsPause(e.Limit):
		return "the site is " + e.Limit
	case e.Limit != "" && e.First:
		return fmt.Sprintf("%s for %q before it", Number(e.Place-1, "other waits", "others wait"), e.Limit)
	case e.Limit != "" && e.Away:
		return fmt.Sprintf("the store is away, and %q waits until the store is back (outage: strict)", e.Limit)
	case e.Limit != "" && e.Asks:
		return fmt.Sprintf("the store is asked what is left of %q", e.Limit)
	case e.Limit != "" && e.Until.IsZero():
		return fmt.Sprintf("all of %q is in use until another is done", e.Limit)
	case e.Limit != "":
		return fmt.Sprintf("%q has too little left%s", e.Limit, Until(e.Until, now))
	case e.Place > 1:
		return Number(e.Place-1, "other is", "others are") + " before it"
	}
	return ""
}

// last says why the site failed last.
func (e Explanation) last() string {
	if e.Failed == "" {
		return ""
	}
	return " (the last time because " + e.Failed + ")"
}

// broken tells whether nothing at all can be sent for now.
func (e Explanation) broken() bool {
	return e.Breaker == "open" || e.allOpen()
}

// wouldChange says what would have it go sooner, and what nothing here changes.
func (e Explanation) wouldChange(now time.Time) []string {
	const crawlDelay = "Crawl-delay of " // begins the name of a limit that robots.txt asks for, see proxy/dispatch/robots
	if e.Observed || e.keeper(now) == "" {
		text := "nothing keeps it: it goes at once"
		switch {
		case e.Breaker == "half-open":
			text = "the site failed several times in a row" + e.last() + ": the next request tries it, and others wait for its answer"
		case e.Breaker == Failing && e.Failed != "":
			text += ", but the site fails: " + e.Failed
		}
		return append(e.tunnelled(), text)
	}
	list := e.tunnelled()
	switch {
	case e.Never:
		return append(list, fmt.Sprintf("raise the limit %q, or have it cost less", e.Limit))
	case e.broken():
		return append(list, "the breaker lets one request try, and closes when that is answered; "+e.try())
	case e.Why != "" && strings.HasPrefix(e.Limit, "token"):
		list = append(list, fmt.Sprintf("the pause (%s) ends %s; %s", e.Why, soon(e.Until, now), e.allowsMore()))
	case e.Why != "" && e.CanTry:
		list = append(list, fmt.Sprintf("the pause (%s) ends %s; %s", e.Why, soon(e.Until, now), e.try()))
	case e.Why != "" && !e.learned():
		list = append(list, fmt.Sprintf("the pause (%s) ends %s; nothing here changes that", e.Why, soon(e.Until, now)))
	case e.Asks:
		list = append(list, "the answer of the store; nothing here changes that")
	case IsPause(e.Limit):
		list = append(list, fmt.Sprintf("\"abide resume %s\" lets it go", e.Site))
	case e.Limit != "" && e.learned():
		list = append(list, fmt.Sprintf("%q is the site's own; %s", e.Limit, e.allowsMore()))
	case strings.HasPrefix(e.Limit, crawlDelay):
		list = append(list, fmt.Sprintf("%q is from the site's robots.txt: \"robots: false\" in its rule leaves it out, and the rule's own limits hold", e.Limit))
	case e.Limit != "":
		list = append(list, fmt.Sprintf("raise the limit %q", e.Limit))
	}
	for _, one := range e.Limits {
		// The queue's name for it has whose it is, too.
		if one.Limit == e.Limit || strings.HasPrefix(e.Limit, one.Limit+" of ") || !one.Keeps || one.Unused {
			continue
		}
		why := ""
		if one.Why != "" {
			why = " (" + one.Why + ")"
		}
		list = append(list, fmt.Sprintf("%q would keep it as well%s, until %s", one.name(), why, when(Later(one.Next, one.Cooling), now)))
	}
	if e.Place > 1 {
		list = append(list, Number(e.Place-1, "other is", "others are")+" before it: a smaller Abide-Priority goes first")
	}
	for _, one := range e.Backends {
		if one.Breaker == "open" {
			list = append(list, fmt.Sprintf("the breaker of %s is open, so the other backends do its share", one.Backend))
		}
	}
	return list
}

// try names the command that asks a site that fails.
func (e Explanation) try() string { return fmt.Sprintf("%q sends one at once", "abide try "+e.Site) }

// allowsMore says with what the site allows more.
func (e Explanation) allowsMore() string {
	if slices.ContainsFunc(e.Limits, func(l ExplainedLimit) bool { return l.Limit == "token" || l.Learned && l.Of != "" }) {
		return "more tokens would share it"
	}
	return "fewer requests, or an account of which the site allows more, would help"
}

// learned tells whether what keeps it is a limit that the site has taught.
func (e Explanation) learned() bool {
	return slices.ContainsFunc(e.Limits, func(l ExplainedLimit) bool {
		return l.Learned && l.Keeps && (l.Limit == e.Limit || strings.HasPrefix(e.Limit, l.Limit+" of "))
	})
}

// tunnelled warns that the numbers are not about what is inside of a tunnel.
func (e Explanation) tunnelled() []string {
	if e.Intercepted || len(e.Limits) == 0 || !strings.HasPrefix(e.Target, "https:") || e.OpenedAt != "" {
		return nil
	}
	return []string{"it goes through a tunnel, where requests are not counted, unless intercept opens it"}
}

// allOpen tells whether the site has backends, and the breakers of all are open.
func (e Explanation) allOpen() bool {
	return len(e.Backends) > 0 && !slices.ContainsFunc(e.Backends, func(b ExplainedBackend) bool { return b.Breaker != "open" })
}

// name returns the name that the queue gives the limit.
func (l ExplainedLimit) name() string { return NameOf(l.Limit, l.Of) }
