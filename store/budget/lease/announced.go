package lease

import (
	"strconv"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Announced is the budget of a limit that a server announces: one budget for each of the
// server's windows, divided between the instances. It implements ledger.Budget.
type Announced struct {
	a      *Account
	name   string
	outage Outage
	number int64
	*shared
}

// Announced makes the budget of a limit with that name. Nothing may be taken before Window
// is called.
func (a *Account) Announced(name string, o Outage) *Announced {
	return &Announced{a: a, name: name, outage: o}
}

// Window sets the current window. Leases of other windows expire. It returns an upper bound
// of what clients outside of the fleet used in the old window.
//
// Instances disagree about the end of a window by some seconds, and their clocks by more.
// So the store does not know the end: each window has a budget of its own, from which
// nothing is returned for longer than the window lasts.
func (b *Announced) Window(now time.Time, number, amount int64, period time.Duration) (outside int64) {
	if b.shared != nil && b.number == number {
		if b.outside.amount != amount {
			b.outside.amount, b.mustRestate = amount, true
			at := b.a.clock.at(now)
			b.applyOutsideUse(at)
			b.a.schedule(b.shared, at.low)
		}
		return 0
	}
	b.a.clock.at(now)
	if b.shared != nil {
		outside = b.outside.usedOutside()
		b.a.remove(b.shared)
		if c := b.outside.answers; c != nil {
			b.a.remove(c)
		}
	}
	item := budget{kind: store.Rolling, amount: min(max(amount, 1), maxAmount), window: 2 * roundedWindow(period), slots: 2, once: true}
	item.width = int64(store.Width(&store.Ask{Kind: item.kind, Window: item.window, Slots: item.slots}))
	b.number = number
	b.shared = newShared(b.a, b.name+"\x1f"+strconv.FormatInt(number, 10), item, b.outage)
	b.outside.amount = item.amount
	return outside
}

// Said records how many units the server reports as used, by any client, and how many
// requests of this instance were answered. outside means that clients outside of the fleet
// are assumed to use some.
func (b *Announced) Said(now time.Time, used, answered int64, outside bool) {
	o, at := &b.outside, b.a.clock.at(now)
	o.used = max(o.used, used)
	if outside && o.answers == nil {
		o.answers = &answers{meter: b.shared, planned: never}
	}
	if o.answers != nil {
		o.answers.count(at, answered)
	}
	b.applyOutsideUse(at)
}

// roundedWindow rounds a length up, so that instances with slightly different values get
// the same.
func roundedWindow(period time.Duration) time.Duration {
	step := 1500 * time.Millisecond
	for step < period {
		step *= 4
	}
	return step
}
