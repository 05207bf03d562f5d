package sites

import "time"

const (
	// certain is how many refusals more must speak for a common limit than against it.
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

// usage is how a budget is used.
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

// refused takes a refusal of a request that was sent at a time, and tells whether all budgets
// share the limit.
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
