package metrics

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/abide-proxy/abide/status"
)

// maxTokens bounds the labelled tokens of a pool. The rest is "other".
const maxTokens = 1000

// Token is a token of a pool. State is "ready", "cooling", "spent", "quarantined" or
// "disabled".
type Token struct {
	Pool, Name, State       string
	Uses, Refusals, Denials uint64
}

// Announced is a limit that a server announces, for a token of a pool or, if these are
// empty, for requests without a token.
type Announced struct {
	Site, Pool, Token string
	// Budget is the same for tokens that share this limit.
	Budget string
	Route  string
	Name   string // unique for one site and budget

	Limit, Remaining int64 // -1: unknown
	Reset            time.Time
	Foreign          float64 // the share used by other clients, 0 to 1
}

// Known is the state of tokens, announced limits and configured limits.
type Known struct {
	Tokens  []Token
	Limits  []Announced
	Written []status.Limit
}

// Tokens sets the function that returns this state.
func (m *Metrics) Tokens(now func() Known) { m.tokens.now.Store(&now) }

// tokenCollector collects the tokens' metrics at a scrape.
type tokenCollector struct {
	sites *sites
	most  int // labelled tokens of a pool
	now   atomic.Pointer[func() Known]

	mu    sync.Mutex
	seen  map[pair]tokenCounts // :: pool, token → last value
	total map[pair]tokenCounts // :: labels of both → sum
}

type tokenCounts struct{ uses, refusals, denials uint64 }

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

func (c *tokenCollector) Describe(to chan<- *prometheus.Desc) {
	describe(to, remainingDesc, resetDesc, stateDesc, usesDesc, refusedDesc, deniedDesc, foreignDesc, limitRemainingDesc, limitUsageDesc, limitRateDesc)
}

// Collect calls the function with the lock held, as queue.Collect does. Only scrapes take
// the lock.
func (c *tokenCollector) Collect(to chan<- prometheus.Metric) {
	now := c.now.Load()
	if now == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := (*now)()
	apart := labelledTokens(known.Tokens, c.most)
	c.states(to, known.Tokens, apart)
	c.addSince(known.Tokens, apart)
	for at, n := range c.total {
		to <- counter(usesDesc, n.uses, at[0], at[1])
		to <- counter(refusedDesc, n.refusals, at[0], at[1])
		to <- counter(deniedDesc, n.denials, at[0], at[1])
	}
	limits := slices.SortedFunc(slices.Values(known.Limits), byName)
	byToken(to, limits, apart)
	c.bySite(to, limits, known.Written)
}

// labelledTokens are the tokens with labels of their own: the first of each pool, by name.
func labelledTokens(list []Token, most int) map[pair]bool {
	names := map[string][]string{} // :: pool → its tokens
	for _, one := range list {
		names[one.Pool] = append(names[one.Pool], one.Name)
	}
	apart := map[pair]bool{}
	for pool, all := range names {
		slices.Sort(all)
		for _, one := range all[:min(len(all), most)] {
			apart[pair{pool, one}] = true
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

func (c *tokenCollector) states(to chan<- prometheus.Metric, list []Token, apart map[pair]bool) {
	in := map[pair]map[string]int{}
	for _, one := range list {
		at := tokenLabels(one.Pool, one.Name, apart)
		if in[at] == nil {
			in[at] = map[string]int{}
		}
		in[at][one.State]++
	}
	for at, n := range in {
		for _, state := range tokenStates {
			to <- gaugeOf(stateDesc, float64(n[state]), at[0], at[1], state)
		}
	}
}

// addSince adds what has happened since the last scrape, so that "other" does not fall when
// tokens come and go. The series of a removed token ends; the counts of a replaced one move
// to "other".
func (c *tokenCollector) addSince(list []Token, apart map[pair]bool) {
	said, told := map[pair]tokenCounts{}, map[pair]bool{}
	for _, one := range list {
		at := pair{one.Pool, one.Name}
		said[at] = tokenCounts{one.Uses, one.Refusals, one.Denials}
		told[tokenLabels(one.Pool, one.Name, apart)] = true
	}
	there := map[pair]bool{}
	for at := range said {
		there[pair{label(at[0]), label(at[1])}] = true
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
	for at, n := range said {
		c.add(tokenLabels(at[0], at[1], apart), n.since(c.seen[at]))
	}
	c.seen = said
}

func (c *tokenCollector) add(at pair, n tokenCounts) {
	sum := c.total[at]
	c.total[at] = tokenCounts{sum.uses + n.uses, sum.refusals + n.refusals, sum.denials + n.denials}
}

// since is the increase after before; the whole value if the counter has begun again.
func (n tokenCounts) since(before tokenCounts) tokenCounts {
	if n.uses < before.uses || n.refusals < before.refusals || n.denials < before.denials {
		return n
	}
	return tokenCounts{n.uses - before.uses, n.refusals - before.refusals, n.denials - before.denials}
}

// byName sorts limits, so that the same ones are labelled each time.
func byName(a, b Announced) int {
	return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Site, b.Site),
		cmp.Compare(a.Route, b.Route), cmp.Compare(a.Name, b.Name))
}
