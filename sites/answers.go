package sites

import (
	"time"

	"github.com/abide-proxy/abide/sites/ledger"
)

const (
	// longestBreak is the time without successes that ends a site's activity.
	longestBreak = time.Minute
)

// answers counts a site's successes. The zero value has counted none.
type answers struct {
	successes  int64
	latest     time.Time // the last success
	latestSent time.Time // the latest request that succeeded

	// since requests began, without long breaks
	active map[string]int64 // :: budget → successes
	began  time.Time

	unavailable unavailable
}

// add counts a success of a request that was sent at a time.
func (a *answers) add(now, sent time.Time, budget string) {
	if a.active == nil || sent.Sub(a.latest) > longestBreak {
		a.active, a.began = map[string]int64{}, sent
	}
	a.successes++
	if a.active[budget]++; len(a.active) > mostBudgets {
		delete(a.active, budget)
	}
	a.latest = now
	if sent.After(a.latestSent) {
		a.latestSent = sent
	}
	a.unavailable.succeeded(sent)
}

// since reports whether a request succeeded that was sent after a time.
func (a *answers) since(t time.Time) bool { return a.latestSent.After(t) }

// history counts the requests that a limit of a budget that is found now has accepted so far; of
// all budgets together if together is true.
func (a *answers) history(now time.Time, budget string, together bool) ledger.History {
	if now.Sub(a.latest) > longestBreak {
		return ledger.History{}
	}
	n := a.active[budget]
	if together {
		n = 0
		for _, one := range a.active {
			n += one
		}
	}
	return ledger.History{Accepted: n, Lasted: now.Sub(a.began)}
}

const (
	// certain is the number by which more refusals must speak for a common limit than against it.
	certain = 3
	// mostBudgets bounds the budgets that are counted.
	mostBudgets = 256
)

// common finds out whether the budgets of a site share one limit: a budget is then refused
// although it has waited, because others have succeeded meanwhile. The zero value has seen
// nothing.
type common struct {
	budgets map[string]*usage // :: budget → its use, of those that were refused
	latest  time.Time         // when the latest request was sent that succeeded
	score   int
}

// usage records the last refusal of a budget, and a success since.
type usage struct {
	succeeded bool      // since its last refusal
	refusedAt time.Time // its last refusal
}

// succeeded counts a success of a request that was sent at a time.
func (c *common) succeeded(sent time.Time, budget string) {
	if sent.After(c.latest) {
		c.latest = sent
	}
	if u := c.budgets[budget]; u != nil && sent.After(u.refusedAt) {
		u.succeeded = true
	}
}

// refused takes a refusal of a request that was sent at a time, and reports whether all
// budgets share the limit.
func (c *common) refused(now, sent time.Time, budget string) bool {
	u := c.budgets[budget]
	switch {
	case u == nil:
		if c.budgets == nil || len(c.budgets) >= mostBudgets {
			c.budgets = map[string]*usage{}
		}
		u = &usage{}
		c.budgets[budget] = u
	case !sent.After(u.refusedAt): // of the same crowd of requests
		return c.score >= certain
	case u.succeeded:
		c.score = max(c.score-1, 0)
	case c.latest.After(u.refusedAt):
		c.score++
	}
	u.refusedAt, u.succeeded = now, false
	return c.score >= certain
}
