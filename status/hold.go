package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// MaxHolds bounds the waiting requests that are listed or counted.
const MaxHolds = 10_000

// Hold is a waiting request.
type Hold struct {
	Site     string  `json:"site"`
	Client   string  `json:"client,omitempty"`
	Priority int     `json:"priority"`
	Waited   float64 `json:"waited_seconds"`
	// Limit keeps it until Until, when Why tells who said so ("Retry-After"). A
	// zero Until is until something else is over.
	Limit string    `json:"limit,omitempty"`
	Why   string    `json:"why,omitempty"`
	Until time.Time `json:"until,omitzero"`
	Asks  bool      `json:"asks_store,omitempty"` // the store is asked what is left of the limit
	// Place is the request's place among those that wait for the same limit, 1 for the
	// next to go. Expected is the time at which it goes, zero if unknown.
	Place    int       `json:"place"`
	Expected time.Time `json:"expected,omitzero"`
}

// HoldList is the answer of /api/v1/holds. More tells that not all are listed.
type HoldList struct {
	Holds []Hold `json:"holds"`
	More  bool   `json:"more"`
}

// HeldCount is the key by which the requests that wait are counted: those of one client and
// priority at one site.
type HeldCount struct {
	Site, Client string
	Priority     int
}

// BlockedTime is for how long a limit has blocked requests of a site since it was first seen:
// three requests for two seconds are six.
type BlockedTime struct {
	Site, Limit string
	Seconds     float64 // times requests
	Busy        float64 // seconds for which it blocked any request
}

// Wait sums up the holds of one site that wait for the same limit, or those of many sites whose limits have the same name:
// Site is then the one where the most wait, and Sites counts all.
type Wait struct {
	Site  string    `json:"site"`
	Sites int       `json:"sites,omitempty"`
	Limit string    `json:"limit,omitempty"`
	Why   string    `json:"why,omitempty"` // why the site pauses, "" if it does not
	Asks  bool      `json:"asks_store,omitempty"`
	N     int       `json:"requests"`
	Until time.Time `json:"until,omitzero"` // when the first of them may go; zero: when something is over
	// Last tells, of many sites, when the first request of the last of them may go; zero: when something is over.
	Last time.Time `json:"last_until,omitzero"`
}

// At names the site, and counts the others.
func (w Wait) At() string {
	if w.Sites > 1 {
		return fmt.Sprintf("%s and %s more", w.Site, Count(uint64(w.Sites-1)))
	}
	return w.Site
}

// Ends says when the requests may go.
func (w Wait) Ends(now time.Time) string {
	if w.Until.IsZero() && IsPause(w.Limit) {
		return "the site is resumed"
	}
	first, last := In(w.Until, now), Ahead(w.Last, now)
	if w.Sites > 1 && last != "" && last != first {
		return first + " to " + strings.TrimPrefix(last, "in ")
	}
	return first
}

// pauses names what holds requests beside limits, by the words of the queue.
var pauses = map[string]string{
	"cooldown": "a pause after refusals or failures",
	"retry":    "a pause before another attempt",
	"token":    "a pause of all tokens",
	"no token": "a pause of all tokens",
	"store":    "the time in which abide stores its counts",
	"outage":   "an outage or a ban that is over",
}

// LimitName names for people what the queue calls a limit, with whose it is.
func LimitName(limit string) string {
	name, of, several := strings.Cut(limit, " of any of ")
	if pause := pauses[name]; pause != "" && several {
		return pause + " of any of " + of
	}
	return cmp.Or(pauses[limit], limit)
}

// For describes what they wait for.
func (w Wait) For() string {
	w.Limit = Past(w.Limit) // Ends says until when
	switch {
	case w.Asks:
		return w.Limit + ", of which the store is asked what is left"
	case w.Why == "":
		return cmp.Or(LimitName(w.Limit), "its turn")
	case w.Limit == "" || w.Limit == w.Site:
		return "a pause: " + w.Why
	case LimitName(w.Limit) != w.Limit:
		return LimitName(w.Limit) + ": " + w.Why
	}
	return "a pause of the limit " + strings.Replace(w.Limit, " of any of ", ", of any of ", 1) + ": " + w.Why
}

// Waits are the sums with the most holds.
type Waits struct {
	List []Wait `json:"for"`
	N    int    `json:"requests"`
	More bool   `json:"more"` // N are not all, or List has not all of them
	// Turns names the clients and rules with a weight or priority of their own.
	Turns string `json:"turns,omitempty"`

	Most map[string]string `json:"-"` // :: site → what most of its requests wait for
}

// Cooldown is a pause in the requests to a site after it has refused some.
type Cooldown struct {
	Site  string    `json:"site"`
	Until time.Time `json:"until"`
	Why   string    `json:"why,omitempty"`
	Part  bool      `json:"part,omitempty"` // some requests pause, those of a route or a credential
}

// Text says which requests pause and why.
func (c Cooldown) Text() string {
	which := "no request goes"
	if c.Part {
		which = "requests wait"
	}
	return which + ", because of a pause: " + c.Why
}

// SumWaits sums up at most MaxHolds requests by what they wait for.
func SumWaits(holds []Hold) *Waits {
	sum := &Waits{List: []Wait{}, N: min(len(holds), MaxHolds), More: len(holds) > MaxHolds}
	type line struct {
		site, limit, why string
		asks             bool
	}
	lines := map[line]*Wait{}
	for _, one := range holds[:sum.N] {
		at := line{one.Site, one.Limit, one.Why, one.Asks}
		if lines[at] == nil {
			lines[at] = &Wait{Site: one.Site, Limit: one.Limit, Why: one.Why, Asks: one.Asks}
		}
		lines[at].N++
		lines[at].Until = Earlier(lines[at].Until, one.Until)
	}
	for _, one := range lines {
		one.Until = one.Until.UTC()
		sum.List = append(sum.List, *one)
	}
	slices.SortFunc(sum.List, compareWaits)
	sum.Most = make(map[string]string)
	for _, one := range sum.List {
		if sum.Most[one.Site] == "" {
			sum.Most[one.Site] = one.For()
		}
	}
	sum.List = joined(sum.List)
	sum.More = sum.More || len(sum.List) > MaxListed
	sum.List = sum.List[:min(len(sum.List), MaxListed)]
	return sum
}

// compareWaits sorts those with the most requests first.
func compareWaits(a, b Wait) int {
	return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Why, b.Why))
}

// joined has one row for those of many sites that wait for limits of the same name.
func joined(list []Wait) []Wait {
	const manySites = 4 // the number of sites from which on those that wait for limits of the same name are one row
	count, at, rows := map[string]int{}, map[string]int{}, []Wait{}
	for _, one := range list {
		count[one.For()]++
	}
	for _, one := range list {
		what := one.For()
		i, there := at[what]
		switch {
		case count[what] < manySites:
			rows = append(rows, one)
		case there:
			rows[i].N, rows[i].Until, rows[i].Last = rows[i].N+one.N, Earlier(rows[i].Until, one.Until), Later(rows[i].Last, one.Until)
		default:
			one.Sites, one.Last, at[what] = count[what], one.Until, len(rows)
			rows = append(rows, one)
		}
	}
	slices.SortFunc(rows, compareWaits)
	return rows
}

// Failing is the state of a breaker that is closed although the site, or backend, could not be reached last, or answers
// each request with the same failure.
const Failing = "failing"

// Breaker is that of a site, or of one of its backends. State is "closed", "failing",
// "half-open" or "open".
type Breaker struct {
	Site    string `json:"site"`
	Backend string `json:"backend,omitempty"`
	State   string `json:"state"`
	// Until is the time at which an open breaker lets a request try.
	Until time.Time `json:"until,omitzero"`
	// Why is the reason of the last failure.
	Why string `json:"why,omitempty"`
	// Since is the first of the failures without another answer between; zero: too few have failed.
	Since time.Time `json:"since,omitzero"`
}

// Name names a site, or its backend, or one host of a site of several.
func (b Breaker) Name() string {
	return strings.TrimSuffix(b.Site+" / "+b.Backend, " / ")
}

// NotClosed is a copy of the breakers that are not closed: open ones first, and those on trial among
// them, at most MaxListed.
func NotClosed(list []Breaker) []Breaker {
	list = slices.DeleteFunc(slices.Clone(list), func(b Breaker) bool { return b.State == "closed" })
	slices.SortFunc(list, func(a, b Breaker) int {
		return cmp.Or(cmp.Compare(strings.TrimPrefix(b.State, "half-"), strings.TrimPrefix(a.State, "half-")), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Backend, b.Backend))
	})
	list = list[:min(len(list), MaxListed)]
	for i := range list {
		list[i].Until, list[i].Since = list[i].Until.UTC(), list[i].Since.UTC()
	}
	return list
}

// DescribeWaiting writes why requests wait.
func (s Process) DescribeWaiting(w io.Writer, now time.Time) {
	if s.Waiting == nil {
		return
	}
	if s.Waiting.N == 0 {
		say(w, "")
		say(w, "no request waits")
		return
	}
	more := ""
	if s.Waiting.N == MaxHolds && s.Waiting.More {
		more = "more than "
	}
	heading(w, more+Number(s.Waiting.N, "request waits", "requests wait"))
	t := Table{Numbers: []int{1}}
	t.Add("SITE", "REQUESTS", "FOR", "UNTIL")
	for _, one := range s.Waiting.List {
		t.Add(one.At(), fmt.Sprint(one.N), one.For(), one.Ends(now))
	}
	t.Write(w)
	if s.Waiting.Turns != "" {
		say(w, "by priority (3 is usual), then in turn by weight: %s", s.Waiting.Turns)
	}
}

// BreakerWord returns what the state of a breaker means for its site: "ok" for one that is closed.
func BreakerWord(state string) string {
	switch state {
	case "open":
		return "left alone"
	case "half-open":
		return "on trial"
	}
	return cmp.Or(strings.TrimPrefix(state, "closed"), "ok")
}
