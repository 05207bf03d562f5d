package admin

import (
	"cmp"
	"slices"
	"time"
)

// Breaker is that of a site, or of one of its backends. State is "closed",
// "half-open" or "open".
type Breaker struct {
	Site    string `json:"site"`
	Backend string `json:"backend,omitempty"`
	State   string `json:"state"`
	// Until is when an open one lets a request try.
	Until time.Time `json:"until,omitzero"`
	// Why is how it failed last.
	Why string `json:"why,omitempty"`
}

// broken are the breakers that are not closed: those that are open first, and no
// more than the page has room for.
func (d *desk) broken() []Breaker {
	if d.Breakers == nil {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(d.Breakers()), func(b Breaker) bool { return b.State == "closed" })
	slices.SortFunc(list, func(a, b Breaker) int {
		return cmp.Or(cmp.Compare(b.State, a.State), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Backend, b.Backend))
	})
	list = list[:min(len(list), maxSites)]
	for i := range list {
		list[i].Until = list[i].Until.UTC()
	}
	return list
}
