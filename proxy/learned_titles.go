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
}

// of is the name of a limit: what it is, and for which route. Other is what it is where
// the routes do not know it.
func (t *learnedTitles) of(all *ledger.Routes, id, other string) string {
	if v := all.Version(); t.known == nil || v != t.version {
		t.version, t.known = v, map[string]string{}
	}
	title, known := t.known[id]
	if !known {
		title = policy.LearnedTitle(cmp.Or(all.Title(id), other), routeOf(all, id))
		t.known[id] = title
	}
	return title
}
