package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// usualHolds is how many holds the API lists when it is not asked for more,
// mostHolds is how many it ever does, and how many the page counts.
const (
	usualHolds = 1000
	mostHolds  = 10_000
)

// Hold is a request that waits.
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
	// Place is 1 for the next, among those that wait for the same limit. Expected
	// is when it goes, zero if nobody knows.
	Place    int       `json:"place"`
	Expected time.Time `json:"expected,omitzero"`
}

// holdList is what /api/v1/holds answers. More tells that not all are listed.
type holdList struct {
	Holds []Hold `json:"holds"`
	More  bool   `json:"more"`
}

// holds lists what waits: of one site with ?site=, at most ?limit= of them.
func (d *desk) holds(w http.ResponseWriter, r *http.Request) {
	if d.Holds == nil {
		refuse(w, http.StatusNotImplemented, "this process has no queue")
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the query cannot be read")
		return
	}
	most := usualHolds
	if text := query.Get("limit"); query.Has("limit") {
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > mostHolds {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("limit must be a number from 1 to %d", mostHolds))
			return
		}
	}
	list := d.Holds(query.Get("site"), most+1)
	more := len(list) > most
	if more {
		list = list[:most]
	}
	for i := range list {
		list[i].Until, list[i].Expected = list[i].Until.UTC(), list[i].Expected.UTC()
	}
	if list == nil {
		list = []Hold{}
	}
	answerJSON(w, holdList{list, more})
}

// wait is what the page says of the holds of one site that the same limit keeps.
type wait struct {
	Site  string    `json:"site"`
	Limit string    `json:"limit,omitempty"`
	Why   string    `json:"why,omitempty"` // it pauses, if it does
	Asks  bool      `json:"asks_store,omitempty"`
	N     int       `json:"requests"`
	Until time.Time `json:"until,omitzero"` // when the first of them may go; zero is when something is over
	In    string    `json:"-"`              // the same, for people
}

// For is what they wait for, for people. What pauses a whole site bears its name.
func (w wait) For() string {
	switch {
	case w.Asks:
		return "the store, which is asked what is left of " + w.Limit
	case w.Why == "":
		return cmp.Or(w.Limit, "its turn")
	case w.Limit == "" || w.Limit == w.Site:
		return "a pause: " + w.Why
	}
	return w.Limit + ", a pause: " + w.Why
}

// waits are those with the most holds.
type waits struct {
	List   []wait `json:"for"`
	N      int    `json:"requests"`
	More   bool   `json:"more"` // N are not all
	Hidden int    `json:"-"`    // in no line of the list

	most map[string]string // :: site → what most of its requests wait for
}

// waits sums up what waits, nil when nobody knows.
func (d *desk) waits(now time.Time) *waits {
	if d.Holds == nil {
		return nil
	}
	return sumOf(d.Holds("", mostHolds+1), now)
}

// sumOf sums up at most mostHolds holds.
func sumOf(holds []Hold, now time.Time) *waits {
	sum := &waits{List: []wait{}, N: min(len(holds), mostHolds), More: len(holds) > mostHolds}
	type line struct {
		site, limit, why string
		asks             bool
	}
	lines := map[line]*wait{}
	for _, one := range holds[:sum.N] {
		at := line{one.Site, one.Limit, one.Why, one.Asks}
		if lines[at] == nil {
			lines[at] = &wait{Site: one.Site, Limit: one.Limit, Why: one.Why, Asks: one.Asks}
		}
		lines[at].add(one)
	}
	for _, one := range lines {
		one.In, one.Until = in(one.Until, now), one.Until.UTC()
		sum.List = append(sum.List, *one)
	}
	slices.SortFunc(sum.List, func(a, b wait) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Why, b.Why))
	})
	sum.most = make(map[string]string)
	for _, one := range sum.List {
		if sum.most[one.Site] == "" {
			sum.most[one.Site] = one.For()
		}
	}
	for _, one := range sum.List[min(len(sum.List), maxSites):] {
		sum.Hidden += one.N
	}
	sum.List = sum.List[:min(len(sum.List), maxSites)]
	return sum
}

func (w *wait) add(one Hold) {
	if w.N++; w.Until.IsZero() || !one.Until.IsZero() && one.Until.Before(w.Until) {
		w.Until = one.Until
	}
}

// in is how long it is until then, as people say it.
func in(until, now time.Time) string {
	left := until.Sub(now)
	switch {
	case until.IsZero():
		return "another is done"
	case left <= 0:
		return "now"
	case left < time.Minute:
		return fmt.Sprintf("in %d s", (left+time.Second-1)/time.Second)
	case left < time.Hour:
		return fmt.Sprintf("in %d min %02d s", left/time.Minute, left%time.Minute/time.Second)
	case left < 24*time.Hour:
		return fmt.Sprintf("in %d h %02d min", left/time.Hour, left%time.Hour/time.Minute)
	}
	return until.UTC().Format("2 January 2006, 15:04 UTC")
}

// ahead is in, "" for what is over or not known.
func ahead(until, now time.Time) string {
	if !until.After(now) {
		return ""
	}
	return in(until, now)
}
