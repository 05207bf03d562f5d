package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/abide-proxy/abide/status"
)

// remainingPart is the rest of a limit, or of several.
type remainingPart struct {
	limit, remaining float64 // -1: unknown
	reset            time.Time
}

// scarcer tells whether a smaller part is left; an unknown part is not scarce.
func (a remainingPart) scarcer(b remainingPart) bool {
	switch {
	case a.remaining < 0 || b.remaining < 0:
		return a.remaining >= 0 && b.remaining < 0
	case a.limit > 0 && b.limit > 0:
		return a.remaining/a.limit < b.remaining/b.limit
	}
	return a.remaining < b.remaining
}

// plus is the sum of both, as far as known.
func (a remainingPart) plus(b remainingPart) remainingPart {
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

// leftOf makes a remainingPart of a limit; -1 is unknown.
func leftOf(announced Announced) remainingPart {
	return remainingPart{max(float64(announced.Limit), -1), max(float64(announced.Remaining), -1), announced.Reset}
}

// budgetLimit is a limit of a route for one budget: that of a token, or of the tokens labelled
// "other".
type budgetLimit struct{ pool, token, budget, route, limit string }

// byToken exports what each token has left of each limit, of limits with equal labels of the scarcest,
// and the sum for tokens labelled "other". The list is sorted.
func byToken(to chan<- prometheus.Metric, list []Announced, apart map[pair]bool) {
	routes, foreign := map[pair]names{}, map[pair]float64{} // :: labels of the token
	scarcest := map[budgetLimit]remainingPart{}
	for _, one := range list {
		if one.Token == "" {
			continue
		}
		token := tokenLabels(one.Pool, one.Token, apart)
		if routes[token] == nil {
			routes[token] = names{}
		}
		at := budgetLimit{pool: token[0], token: token[1], route: label(cmp.Or(one.Route, one.Name)), limit: label(one.Name)}
		if both := at.route + "\x00" + at.limit; routes[token][both] || len(routes[token]) < maxRoutes {
			routes[token][both] = true
		} else {
			at.route, at.limit = other, other
		}
		if token[1] == other {
			at.budget = cmp.Or(one.Budget, one.Token)
		}
		part := leftOf(one)
		if was, there := scarcest[at]; !there || part.scarcer(was) {
			scarcest[at] = part
		}
		if share := foreign[token]; one.Foreign > share { // not NaN
			foreign[token] = min(one.Foreign, 1)
		} else {
			foreign[token] = share
		}
	}
	sums := map[budgetLimit]remainingPart{}
	for at, is := range scarcest {
		at.budget = ""
		if sum, there := sums[at]; there {
			is = is.plus(sum)
		}
		sums[at] = is
	}
	for at, is := range sums {
		if is.remaining >= 0 {
			to <- gaugeOf(remainingDesc, is.remaining, at.pool, at.token, at.route, at.limit)
		}
		if !is.reset.IsZero() {
			to <- gaugeOf(resetDesc, float64(is.reset.UnixMilli())/1000, at.pool, at.token, at.route, at.limit)
		}
	}
	for token, share := range foreign {
		to <- gaugeOf(foreignDesc, share, token[0], token[1])
	}
}

// bySite exports what is left of each limit, summed over its budgets. If a site announces a
// limit that is also configured, it exports the scarcer. The lists may have any order.
func (c *tokenCollector) bySite(to chan<- prometheus.Metric, announced []Announced, written []status.Limit) {
	theirs, ours := map[limitOwner]remainingPart{}, map[limitOwner]remainingPart{}
	for _, one := range announced {
		at := limitOwner{one.Site, one.Name, one.Pool + "\x00" + cmp.Or(one.Budget, one.Token)}
		part := leftOf(one)
		if was, there := theirs[at]; !there || part.scarcer(was) {
			theirs[at] = part
		}
	}
	for _, one := range written {
		if one.Rate > 0 {
			continue // a limit without an amount
		}
		ours[limitOwner{one.Site, one.Limit, one.Of}] = remainingPart{limit: max(float64(one.Most), -1), remaining: max(float64(one.Left), -1)}
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

// rates exports the rates of adaptive limits.
func (c *tokenCollector) rates(to chan<- prometheus.Metric, written []status.Limit, limits map[string]names) {
	lowest := map[pair]float64{}
	for _, one := range written {
		if !(one.Rate > 0) { // NaN is not
			continue
		}
		site := c.sites.labelOf(one.Site)
		if limits[site] == nil {
			limits[site] = names{}
		}
		at := pair{site, limits[site].label(one.Limit)}
		if was, there := lowest[at]; !there || one.Rate < was {
			lowest[at] = one.Rate
		}
	}
	for at, rate := range lowest {
		to <- gaugeOf(limitRateDesc, rate, at[0], at[1])
	}
}

// limitOwner is a limit of one budget.
type limitOwner struct{ site, limit, budget string }

// leftOfAll sums the rest of a limit in all its budgets, and the used part where known.
type leftOfAll struct{ remaining, used, of float64 }

// summed sums what is left by the labels of site and limit. limits collects the labels.
func (c *tokenCollector) summed(by map[limitOwner]remainingPart, limits map[string]names) map[pair]leftOfAll {
	sums := map[pair]leftOfAll{}
	for _, at := range slices.SortedFunc(maps.Keys(by), func(a, b limitOwner) int {
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.limit, b.limit))
	}) {
		site, part := c.sites.labelOf(at.site), by[at]
		if part.remaining < 0 {
			continue
		}
		if limits[site] == nil {
			limits[site] = names{}
		}
		key := pair{site, limits[site].label(at.limit)}
		s := sums[key]
		s.remaining += part.remaining
		if part.limit > 0 {
			s.of += part.limit
			s.used += max(part.limit-part.remaining, 0)
		}
		sums[key] = s
	}
	return sums
}
