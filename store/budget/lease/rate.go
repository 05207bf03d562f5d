package lease

import (
	"math"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/store"
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

const (
	// rateWindow is the window of a rate, unless its amount would be less than one unit.
	rateWindow = time.Second
	// longestRate is the longest window of a rate.
	longestRate = 24 * time.Hour
	rateSlots   = 8
)

// Rate sets the requests per second for all instances together. Leases of another rate
// expire, and nothing is wanted until a window of the old rate is over, since other
// instances may still use it: no more goes than either rate allows.
//
// A rate is kept in slots. A window and one more slot together last as long as the amount
// takes at that rate, so that the amount is used completely and never exceeded in any
// window.
func (b *Rate) Rate(now time.Time, perSecond float64) {
	at := b.a.clock.at(now)
	poll := int64(0)
	if b.shared != nil {
		poll = at.low + int64(b.window)
		b.a.remove(b.shared)
	}
	amount := max(math.Floor(perSecond*rateWindow.Seconds()), 1)
	takes := time.Duration(min(amount/perSecond, longestRate.Seconds()) * float64(time.Second))
	item := budget{kind: store.Rolling, amount: int64(min(amount, float64(maxAmount))), window: max(takes*rateSlots/(rateSlots+1), time.Millisecond), slots: rateSlots}
	item.width = int64(store.Width(&store.Ask{Kind: item.kind, Window: item.window, Slots: item.slots}))
	key := b.name + "\x1f" + strconv.FormatFloat(perSecond, 'g', 6, 64)
	b.shared = newShared(b.a, key, item, b.outage)
	b.pollAt = poll
}

// Users is the number of instances that use the rate, by the store's last answer.
func (b *Rate) Users() int64 {
	if b.shared == nil || !b.known.set {
		return 1
	}
	return int64(max(b.known.holders, 1))
}
