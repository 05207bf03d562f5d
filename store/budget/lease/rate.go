package lease

import (
	"math"
	"strconv"
	"time"
)

// Rate is a rate that instances share, for a limit that a server does not announce. It
// implements ledger.RateBudget.
type Rate struct {
	a      *Account
	name   string
	outage Outage
	*shared
}

// SharedRate makes the budget of a limit with that name. Nothing may be taken before Rate
// is called.
func (a *Account) SharedRate(name string, o Outage) *Rate { return &Rate{a: a, name: name, outage: o} }

// Rate sets the requests per second for all instances together. Leases of another rate
// expire, and nothing is wanted until a window of the old rate is over, since other
// instances may still use it: no more goes than either rate allows.
//
// A rate is granted in slots. A window and one more slot together last as long as the amount
// takes at that rate, so that the amount is used completely and never exceeded in any
// window.
func (r *Rate) Rate(now time.Time, perSecond float64) {
	at := r.a.clock.at(now)
	poll := int64(0)
	if r.shared != nil {
		poll = at.low + int64(r.held.budget.window)
		r.a.remove(r.shared)
	}
	amount := max(math.Floor(perSecond*rateWindow.Seconds()), 1)
	takes := time.Duration(min(amount/perSecond, longestRate.Seconds()) * float64(time.Second))
	b := rollingBudget(int64(min(amount, float64(maxAmount))), max(takes*rateSlots/(rateSlots+1), time.Millisecond), rateSlots)
	r.shared = newShared(r.a, r.name+"\x1f"+strconv.FormatFloat(perSecond, 'g', 6, 64), b, r.outage)
	r.demand.pollAt = poll
}

// Users returns the number of instances that use the rate, by the store's last answer.
func (r *Rate) Users() int64 {
	if r.shared == nil || !r.held.known.set {
		return 1
	}
	return int64(max(r.held.known.holders, 1))
}
