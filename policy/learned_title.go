package policy

import (
	"cmp"
	"strings"
)

// LearnedTitle is the name of a limit that a site has taught, for people and for labels
// of metrics: "75 per 15m for GET /2/tweets/*". Title is what the limit is, "75 per 15m",
// and route is which requests it is about: a route, or what the site calls the limit.
// Limits of the same amount for different routes have different names. A title that has
// its route in it already stays as it is.
//
// LearnedTitle does for learned limits what Limit.Title does for written limits.
func LearnedTitle(title, route string) string {
	switch {
	case title == "" || title == route:
		return cmp.Or(route, "all requests")
	case route == "" || strings.Contains(title, route):
		return title
	}
	return title + " for " + route
}
