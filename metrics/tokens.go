package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/abide-proxy/abide/status"
)

// maxTokens bounds the labelled tokens of a pool. The rest is "other".
const maxTokens = 1000

// Known is the state of tokens, announced limits and configured limits.
type Known struct {
	status.Tokens
	Written []status.Limit
}

// announced is a limit that a server announces, for a token of a pool or, if pool and token
// are empty, for requests without a token.
type announced struct {
	pool, token string
	budget      string // the same for tokens that share this limit
	status.Announced
}

// announcements lists all limits in an order in which the same ones are labelled each time.
func (k *Known) announcements() (list []announced) {
	for _, one := range k.Limits {
		list = append(list, announced{Announced: one})
	}
	for _, pool := range k.Pools {
		for _, token := range pool.Tokens {
			account := token.Account()
			for _, one := range token.Limits {
				list = append(list, announced{pool.Name, token.Label, account, one})
			}
		}
	}
	slices.SortFunc(list, func(a, b announced) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.token, b.token), cmp.Compare(a.Site, b.Site),
			cmp.Compare(a.route(), b.route()), cmp.Compare(a.Name(), b.Name()))
	})
	return list
}

func (a *announced) route() string { return cmp.Or(a.Route, a.Name()) }

// tokenCollector collects the tokens' metrics at a scrape.
type tokenCollector struct {
	asked[Known]
	sites *sites
	most  int           // labelled tokens of a pool
	seen  Growth[pair]  // :: pool, token
	total map[pair]Sums // :: labels of both → uses, refusals, denials
}

func newTokens(sites *sites) *tokenCollector {
	c := &tokenCollector{sites: sites, most: maxTokens, total: map[pair]Sums{}}
	c.descs = []*prometheus.Desc{remainingDesc, resetDesc, stateDesc, usesDesc, refusedDesc, deniedDesc, foreignDesc, limitRemainingDesc, limitUsageDesc, limitRateDesc}
	c.collect = c.collectKnown
	return c
}

var (
	remainingDesc = desc("token_remaining", "What a token has left of a limit of a route, in the unit of the limit.", "pool", "token", "route", "limit")
	resetDesc     = desc("token_reset_timestamp_seconds", "When that limit has more.", "pool", "token", "route", "limit")
	stateDesc     = desc("token_state", "1 for the state that a token is in; of tokens that are not told apart, how many are.", "pool", "token", "state")
	usesDesc      = desc("token_uses_total", "Requests that were sent with a token.", "pool", "token")
	refusedDesc   = desc("token_refusals_total", "Answers that refused a token because of a limit.", "pool", "token")
	deniedDesc    = desc("token_denials_total", "Answers that did not accept a token.", "pool", "token")
	foreignDesc   = desc("token_foreign_ratio", "The share of a token's limits that others use, of the limit where it is the largest.", "pool", "token")

	limitRemainingDesc = desc("limit_remaining", "What is left of a limit that a site announces or the operator wrote, of all that have their own together.", "site", "limit")
	limitUsageDesc     = desc("limit_usage_ratio", "The part of it that is used.", "site", "limit")
	limitRateDesc      = desc("limit_rate", "What an adaptive limit allows now, in requests per second; of several that have their own the smallest.", "site", "limit")
)

var tokenStates = [...]string{"ready", "cooling", "spent", "quarantined", "disabled"}

func (c *tokenCollector) collectKnown(known Known, to chan<- prometheus.Metric) {
	apart := labelledTokens(known.Pools, c.most)
	c.states(to, known.Pools, apart)
	c.addSince(known.Pools, apart)
	for at, n := range c.total {
		to <- counter(usesDesc, n[0], at[0], at[1])
		to <- counter(refusedDesc, n[1], at[0], at[1])
		to <- counter(deniedDesc, n[2], at[0], at[1])
	}
	limits := known.announcements()
	byToken(to, limits, apart)
	c.bySite(to, limits, known.Written)
}

// labelledTokens are the tokens with labels of their own: the first of each pool, by name.
func labelledTokens(pools []status.Pool, most int) map[pair]bool {
	apart := map[pair]bool{}
	for _, pool := range pools {
		var labels []string
		for _, token := range pool.Tokens {
			labels = append(labels, token.Label)
		}
		slices.Sort(labels)
		for _, one := range labels[:min(len(labels), most)] {
			apart[pair{pool.Name, one}] = true
		}
	}
	return apart
}

// tokenLabels are the labels of a token. Different tokens may share "other".
func tokenLabels(pool, token string, apart map[pair]bool) pair {
	if !apart[pair{pool, token}] {
		return pair{label(pool), other}
	}
	return pair{label(pool), label(token)}
}

func (c *tokenCollector) states(to chan<- prometheus.Metric, pools []status.Pool, apart map[pair]bool) {
	in := map[[3]string]float64{}
	for _, pool := range pools {
		for _, one := range pool.Tokens {
			at := tokenLabels(pool.Name, one.Label, apart)
			for _, state := range tokenStates {
				if in[[3]string{at[0], at[1], state}] += 0; state == one.State {
					in[[3]string{at[0], at[1], state}]++
				}
			}
		}
	}
	for at, n := range in {
		to <- gaugeOf(stateDesc, n, at[:]...)
	}
}

// addSince adds what has happened since the last scrape, so that "other" does not fall when
// tokens come and go. The series of a removed token ends; the counts of a replaced one move
// to "other".
func (c *tokenCollector) addSince(pools []status.Pool, apart map[pair]bool) {
	said, told, there := map[pair]Sums{}, map[pair]bool{}, map[pair]bool{}
	for _, pool := range pools {
		for _, one := range pool.Tokens {
			said[pair{pool.Name, one.Label}] = Sums{float64(one.Uses), float64(one.Refusals), float64(one.Denials)}
			told[tokenLabels(pool.Name, one.Label, apart)] = true
			there[pair{label(pool.Name), label(one.Label)}] = true
		}
	}
	for at, n := range c.total {
		if told[at] || at[1] == other {
			continue
		}
		delete(c.total, at)
		if there[at] {
			c.add(pair{at[0], other}, n)
		}
	}
	for at, n := range c.seen.Since(said) {
		c.add(tokenLabels(at[0], at[1], apart), n)
	}
}

func (c *tokenCollector) add(at pair, n Sums) {
	sum := c.total[at]
	c.total[at] = Sums{sum[0] + n[0], sum[1] + n[1], sum[2] + n[2]}
}

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
	a.reset = status.Earlier(a.reset, b.reset)
	return a
}

// addScarcer records what is left of a limit, of limits with equal keys of the scarcest.
func addScarcer[K comparable](to map[K]remainingPart, at K, a announced) {
	part := remainingPart{max(float64(a.Limit), -1), max(float64(a.Remaining), -1), a.Reset} // -1 is unknown
	if was, there := to[at]; !there || part.scarcer(was) {
		to[at] = part
	}
}

// budgetLimit is a limit of a route for one budget: that of a token, or of the tokens labelled
// "other".
type budgetLimit struct{ pool, token, budget, route, limit string }

// byToken exports what each token has left of each limit, of limits with equal labels of the scarcest,
// and the sum for tokens labelled "other". The list is sorted.
func byToken(to chan<- prometheus.Metric, list []announced, apart map[pair]bool) {
	routes, foreign := names[pair]{}, map[pair]float64{} // :: labels of the token
	scarcest := map[budgetLimit]remainingPart{}
	for _, one := range list {
		if one.token == "" {
			continue
		}
		token := tokenLabels(one.pool, one.token, apart)
		at := budgetLimit{pool: token[0], token: token[1], route: label(one.route()), limit: label(one.Name())}
		if routes.bounded(token, at.route+"\x00"+at.limit) == other {
			at.route, at.limit = other, other
		}
		if token[1] == other {
			at.budget = one.budget
		}
		addScarcer(scarcest, at, one)
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
func (c *tokenCollector) bySite(to chan<- prometheus.Metric, list []announced, written []status.Limit) {
	theirs, ours := map[limitOwner]remainingPart{}, map[limitOwner]remainingPart{}
	for _, one := range list {
		at := limitOwner{one.Site, one.Name(), one.pool + "\x00" + one.budget}
		addScarcer(theirs, at, one)
	}
	limits, lowest := names[string]{}, map[pair]float64{} // :: label of the site; rates of adaptive limits
	for _, one := range written {
		if one.Rate > 0 { // a limit without an amount
			at := c.limitLabels(one.Site, one.Limit, limits)
			lowest[at] = min(cmp.Or(lowest[at], one.Rate), one.Rate)
			continue
		}
		ours[limitOwner{one.Site, one.Limit, one.Of}] = remainingPart{limit: max(float64(one.Most), -1), remaining: max(float64(one.Left), -1)}
	}
	told := c.summed(ours, limits)
	for at, s := range c.summed(theirs, limits) {
		if other, there := told[at]; !there || s.remaining < other.remaining {
			told[at] = s
		}
	}
	for at, rate := range lowest {
		to <- gaugeOf(limitRateDesc, rate, at[0], at[1])
	}
	for at, s := range told {
		to <- gaugeOf(limitRemainingDesc, s.remaining, at[0], at[1])
		if s.of > 0 {
			to <- gaugeOf(limitUsageDesc, s.used/s.of, at[0], at[1])
		}
	}
}

// limitLabels are the labels of a limit. limits has those of each site so far.
func (c *tokenCollector) limitLabels(site, limit string, limits names[string]) pair {
	site = c.sites.labelOf(site)
	return pair{site, limits.bounded(site, label(limit))}
}

// limitOwner is a limit of one budget.
type limitOwner struct{ site, limit, budget string }

// leftOfAll sums the rest of a limit in all its budgets, and the used part where known.
type leftOfAll struct{ remaining, used, of float64 }

// summed sums what is left by the labels of site and limit. limits collects the labels.
func (c *tokenCollector) summed(by map[limitOwner]remainingPart, limits names[string]) map[pair]leftOfAll {
	sums := map[pair]leftOfAll{}
	for _, at := range slices.SortedFunc(maps.Keys(by), func(a, b limitOwner) int {
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.limit, b.limit))
	}) {
		part := by[at]
		if part.remaining < 0 {
			continue
		}
		key := c.limitLabels(at.site, at.limit, limits)
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
