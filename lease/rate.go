package lease

import (
	"math"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Rate is a rate that instances have together: of a limit that a server hides. It is a
// ledger.RateBudget.
type Rate struct {
	a      *Account
	name   string
	outage Outage
	*shared
}

// SharedRate makes the budget of a limit with that name. Before Rate was called nothing
// may be taken from it.
func (a *Account) SharedRate(name string, o Outage) *Rate { return &Rate{a: a, name: name, outage: o} }

const (
	// rateWindow is how long is what is given at once of a rate, unless it is less than one.
	rateWindow = time.Second
	// longestRate is the longest window of a rate.
	longestRate = 24 * time.Hour
	rateSlots   = 8
)

// Rate says how many requests a second there are for all. What was leased of another rate
// counts no more, and nothing is wanted until a window of that is over, in which others
// may still use it: no more goes than either of the two allows.
//
// A rate is kept in slots. Those of a window and one more are as long as the amount takes
// at that rate, so that it is used whole and no more than the amount goes in any window.
func (b *Rate) Rate(now time.Time, perSecond float64) {
	at := b.a.clock.at(now)
	poll := int64(0)
	if b.shared != nil {
		poll = at.low + int64(b.window)
		b.a.leave(b.shared)
	}
	amount := max(math.Floor(perSecond*rateWindow.Seconds()), 1)
	takes := time.Duration(min(amount/perSecond, longestRate.Seconds()) * float64(time.Second))
	one := budget{kind: store.Rolling, amount: int64(min(amount, float64(most))), window: max(takes*rateSlots/(rateSlots+1), time.Millisecond), slots: rateSlots}
	one.width = int64(store.Width(&store.Ask{Kind: one.kind, Window: one.window, Slots: one.slots}))
	key := b.name + "\x1f" + strconv.FormatFloat(perSecond, 'g', 6, 64)
	b.shared = &shared{budget: one, a: b.a, key: key, outage: b.outage, planned: never, poll: poll}
}

// Users is how many instances use it, as the store has said last.
func (b *Rate) Users() int64 {
	if b.shared == nil || !b.known.set {
		return 1
	}
	return int64(max(b.known.holders, 1))
}
