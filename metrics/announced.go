package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// left is what is left of a limit, or of several.
type left struct {
	limit, remaining float64 // -1: nobody knows
	reset            time.Time
}

// scarcer tells whether a smaller part is left; what nobody knows is not scarce.
func (a left) scarcer(b left) bool {
	switch {
	case a.remaining < 0 || b.remaining < 0:
		return a.remaining >= 0 && b.remaining < 0
	case a.limit > 0 && b.limit > 0:
		return a.remaining/a.limit < b.remaining/b.limit
	}
	return a.remaining < b.remaining
}

// and is both together, as far as anybody knows.
func (a left) and(b left) left {
	if a.remaining >= 0 && b.remaining >= 0 {
		a.remaining += b.remaining
	} else {
		a.remaining = max(a.remaining, b.remaining)
	}
	if a.reset.IsZero() || !b.reset.IsZero() && b.reset.Before(a.reset) {
		a.reset = b.reset
	}
	return a
}

// leftOf is -1 for whatever nobody knows.
func leftOf(one Announced) left {
	return left{max(float64(one.Limit), -1), max(float64(one.Remaining), -1), one.Reset}
}

// budgetRoute is a route as one budget has it: that of a token, or of several that
// are not told apart.
type budgetRoute struct{ pool, token, budget, route string }

// byToken tells what each token has left. Of the limits of one route it is the
// scarcest, and over tokens that are not told apart the sum. The list is sorted.
func byToken(to chan<- prometheus.Metric, list []Announced, apart map[pair]bool) {
	routes, foreign := map[pair]names{}, map[pair]float64{} // :: labels of the token
	scarcest := map[budgetRoute]left{}
	for _, one := range list {
		if one.Token == "" {
			continue
		}
		token := tokenLabels(one.Pool, one.Token, apart)
		if routes[token] == nil {
			routes[token] = names{}
		}
		at := budgetRoute{pool: token[0], token: token[1], route: routes[token].label(cmp.Or(one.Route, one.Name))}
		if token[1] == other {
			at.budget = cmp.Or(one.Budget, one.Token)
		}
		is := leftOf(one)
		if was, there := scarcest[at]; !there || is.scarcer(was) {
			scarcest[at] = is
		}
		if share := foreign[token]; one.Foreign > share { // not NaN
			foreign[token] = min(one.Foreign, 1)
		} else {
			foreign[token] = share
		}
	}
	sums := map[budgetRoute]left{}
	for at, is := range scarcest {
		at.budget = ""
		if sum, there := sums[at]; there {
			is = is.and(sum)
		}
		sums[at] = is
	}
	for at, is := range sums {
		if is.remaining >= 0 {
			to <- gaugeOf(remainingDesc, is.remaining, at.pool, at.token, at.route)
		}
		if !is.reset.IsZero() {
			to <- gaugeOf(resetDesc, float64(is.reset.UnixMilli())/1000, at.pool, at.token, at.route)
		}
	}
	for token, share := range foreign {
		to <- gaugeOf(foreignDesc, share, token[0], token[1])
	}
}

// bySite tells what is left of each limit, of all that have their own together. Where
// a site announces what the operator wrote, it tells whichever is scarcer. The lists
// may come in any order.
func (c *tokenCollector) bySite(to chan<- prometheus.Metric, announced []Announced, written []Written) {
	theirs, ours := map[whose]left{}, map[whose]left{}
	for _, one := range announced {
		at := whose{one.Site, one.Name, one.Pool + "\x00" + cmp.Or(one.Budget, one.Token)}
		is := leftOf(one)
		if was, there := theirs[at]; !there || is.scarcer(was) {
			theirs[at] = is
		}
	}
	for _, one := range written {
		if one.Rate > 0 {
			continue // it has no amount of which anything could be left
		}
		ours[whose{one.Site, one.Name, one.Whose}] = left{limit: max(float64(one.Amount), -1), remaining: max(float64(one.Left), -1)}
	}
	limits := map[string]names{} // :: label of the site
	told := c.summed(ours, limits)
	for at, s := range c.summed(theirs, limits) {
		if other, there := told[at]; !there || s.remaining < other.remaining {
			told[at] = s
		}
	}
	c.rates(to, written, limits)
	for at, s := range told {
		to <- gaugeOf(limitRemainingDesc, s.remaining, at[0], at[1])
		if s.of > 0 {
			to <- gaugeOf(limitUsageDesc, s.used/s.of, at[0], at[1])
		}
	}
}

// rates tells what adaptive limits allow.
func (c *tokenCollector) rates(to chan<- prometheus.Metric, written []Written, limits map[string]names) {
	lowest := map[pair]float64{}
	for _, one := range written {
		if !(one.Rate > 0) { // NaN is not
			continue
		}
		site := c.sites.told(one.Site)
		if limits[site] == nil {
			limits[site] = names{}
		}
		at := pair{site, limits[site].label(one.Name)}
		if was, there := lowest[at]; !there || one.Rate < was {
			lowest[at] = one.Rate
		}
	}
	for at, rate := range lowest {
		to <- gaugeOf(limitRateDesc, rate, at[0], at[1])
	}
}

// whose is a limit as one of those has it that have their own.
type whose struct{ site, limit, budget string }

// leftOfAll is what is left of a limit in all, and what of the known part is used.
type leftOfAll struct{ remaining, used, of float64 }

// summed is what is left by the labels of site and limit. Limits takes the labels.
func (c *tokenCollector) summed(by map[whose]left, limits map[string]names) map[pair]leftOfAll {
	sums := map[pair]leftOfAll{}
	for _, at := range slices.SortedFunc(maps.Keys(by), func(a, b whose) int {
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.limit, b.limit))
	}) {
		site, is := c.sites.told(at.site), by[at]
		if is.remaining < 0 {
			continue
		}
		if limits[site] == nil {
			limits[site] = names{}
		}
		key := pair{site, limits[site].label(at.limit)}
		s := sums[key]
		s.remaining += is.remaining
		if is.limit > 0 {
			s.of += is.limit
			s.used += max(is.limit-is.remaining, 0)
		}
		sums[key] = s
	}
	return sums
}

// names are the values of a label that are told apart.
type names map[string]bool

// label is that of a name, "other" if there are enough.
func (n names) label(name string) string {
	name = label(name)
	if !n[name] && len(n) >= maxRoutes {
		return other
	}
	n[name] = true
	return name
}

func gaugeOf(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}
