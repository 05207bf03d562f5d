package sites

import (
	"cmp"
	"fmt"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/status"
)

// titles caches the names of a site's learned limits. They change with the site's routes.
// The zero value is empty.
type titles struct {
	version uint64            // version of the routes that they belong to
	known   map[string]string // :: ID of a limit → its name
	taken   map[string]bool   // :: name in known
	limits  int               // of the site
	same    map[string]int    // :: amount → limits of the site with it
}

// of returns the name of a limit: "5 per 5s", with a route if the site has several limits. Names
// are unique within a site. other is used if the routes do not know the limit.
func (t *titles) of(all *routes.Table, id, other string) string {
	if v := all.Version(); t.known == nil || v != t.version {
		*t = titles{version: v, known: map[string]string{}, taken: map[string]bool{}, same: map[string]int{}}
		for _, one := range all.IDs() {
			t.limits++
			t.same[all.Limit(one).Title]++
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

// name returns the server's name of the limit, if any. Otherwise it contains a route if the site
// has several limits and the route identifies it: it covers that route alone, or another
// limit has the same amount. A limit of every route that the site does not announce has no other name.
func (t *titles) name(all *routes.Table, id, other string) string {
	amount := cmp.Or(all.Limit(id).Title, other)
	bucket, under := all.Describe(id)
	switch {
	case amount == status.HiddenTitle && len(under) == 0:
		return amount
	case bucket != "" || amount == "" || len(under) == 0:
		return policy.LearnedTitle(amount, routeOf(all, id))
	case len(under) == 1 && t.limits > 1:
		return policy.LearnedTitle(amount, under[0])
	case t.same[amount] > 1:
		return policy.LearnedTitle(amount, under[0]+" and others")
	}
	return amount
}

// routeOf returns the site's name of a limit, or else the routes that are under it.
func routeOf(all *routes.Table, id string) string {
	bucket, routes := all.Describe(id)
	switch {
	case bucket != "":
		return bucket
	case len(routes) == 0:
		return id
	case len(routes) > 1:
		return fmt.Sprintf("%s and %d more", routes[0], len(routes)-1)
	}
	return routes[0]
}
