package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// Breaker is that of a site, or of one of its backends. State is "closed",
// "half-open" or "open".
type Breaker struct {
	Site    string `json:"site"`
	Backend string `json:"backend,omitempty"`
	State   string `json:"state"`
	// Until is the time at which an open breaker lets a request try.
	Until time.Time `json:"until,omitzero"`
	// Why is the reason of the last failure.
	Why string `json:"why,omitempty"`
}

// NotClosed is a copy of the breakers that are not closed: open ones first, at most
// MaxListed.
func NotClosed(list []Breaker) []Breaker {
	list = slices.DeleteFunc(slices.Clone(list), func(b Breaker) bool { return b.State == "closed" })
	slices.SortFunc(list, func(a, b Breaker) int {
		return cmp.Or(cmp.Compare(b.State, a.State), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Backend, b.Backend))
	})
	list = list[:min(len(list), MaxListed)]
	for i := range list {
		list[i].Until = list[i].Until.UTC()
	}
	return list
}

// DescribeWaiting writes which sites and backends are left alone, and why requests
// wait.
func (s Process) DescribeWaiting(w io.Writer, now time.Time) {
	if len(s.Breakers) > 0 {
		heading(w, "broken")
		t := table{}
		t.add("SITE", "BREAKER", "TRIES", "FAILED LAST BECAUSE")
		for _, one := range s.Breakers {
			site := one.Site
			if one.Backend != "" {
				site += " / " + one.Backend
			}
			t.add(site, one.State, cmp.Or(Ahead(one.Until, now), "-"), cmp.Or(one.Why, "-"))
		}
		t.write(w)
	}
	if s.Waiting == nil {
		return
	}
	if s.Waiting.N == 0 {
		say(w, "")
		say(w, "no request waits")
		return
	}
	more := ""
	if s.Waiting.More {
		more = "more than "
	}
	heading(w, more+Number(s.Waiting.N, "request waits", "requests wait"))
	t := table{numbers: []int{1}}
	t.add("SITE", "REQUESTS", "FOR", "UNTIL")
	for _, one := range s.Waiting.List {
		t.add(one.Site, fmt.Sprint(one.N), one.For(), one.Ends(now))
	}
	t.write(w)
}

// BreakerWord returns the state of a breaker for people: "ok" for one that is closed.
func BreakerWord(state string) string {
	if state == "" || state == "closed" {
		return "ok"
	}
	return state
}
