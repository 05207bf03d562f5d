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

// history is what a limit of a budget that is found now has accepted so far; of all budgets
// together if together is true.
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
