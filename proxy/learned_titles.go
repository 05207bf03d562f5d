package proxy

import (
	"cmp"

	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/policy"
)

// learnedTitles are the names of a site's learned limits, which every request to the site
// needs and which change when the site's routes do. The zero value is empty.
type learnedTitles struct {
	version uint64            // of the routes, for which they are good
	known   map[string]string // :: ID of a limit → its name
	taken   map[string]bool   // :: name in known
	limits  int               // of the site
	same    map[string]int    // :: amount → limits of the site with it
}

// of is the name of a limit: "5 per 5s", with a route where the site has several limits.
// No two limits of a site have the same name. Other is what the limit is where the
// routes do not know it.
func (t *learnedTitles) of(all *ledger.Routes, id, other string) string {
	if v := all.Version(); t.known == nil || v != t.version {
		*t = learnedTitles{version: v, known: map[string]string{}, taken: map[string]bool{}, same: map[string]int{}}
		for _, one := range all.IDs() {
			t.limits++
			t.same[all.Title(one)]++
		}
	}
	title, known := t.known[id]
	if !known {
		title = t.name(all, id, other)
		if t.taken[title] {
			title = policy.LearnedTitle(title, id)
		}
		t.known[id], t.taken[title] = title, true
	}
	return title
}

// name is the name of a limit: the server's, if there is one. Otherwise it bears a route
// where the site has several limits and the route says which one is meant: the limit
// covers that route alone, or another limit has the same amount.
func (t *learnedTitles) name(all *ledger.Routes, id, other string) string {
	amount := cmp.Or(all.Title(id), other)
	bucket, routes := all.Under(id)
	switch {
	case bucket != "" || amount == "" || len(routes) == 0:
		return policy.LearnedTitle(amount, routeOf(all, id))
	case len(routes) == 1 && t.limits > 1:
		return policy.LearnedTitle(amount, routes[0])
	case t.same[amount] > 1:
		return policy.LearnedTitle(amount, routes[0]+" and others")
	}
	return amount
}
