package lease

import (
	"slices"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Announced is the budget of a limit that a server announces: one for each of its
// windows, which the instances that know the limit divide between them. It is a
// ledger.Budget.
type Announced struct {
	a      *Account
	name   string
	outage Outage
	number int64
	*shared
}

// Announced makes the budget of a limit with that name. Before Window was called
// nothing may be taken from it.
func (a *Account) Announced(name string, o Outage) *Announced {
	return &Announced{a: a, name: name, outage: o}
}

// Window says which window is there now. What was leased of another one counts no more.
//
// Instances differ about the end of a window by some seconds, and their clocks by more.
// So the store does not know it: each window has a budget of its own, from which nothing
// comes back for longer than it lasts.
func (b *Announced) Window(now time.Time, number, amount int64, period time.Duration) {
	if b.shared != nil && b.number == number {
		if b.amount != amount {
			b.amount, b.again = amount, true
			b.a.stir(b.shared, b.a.clock.at(now).low)
		}
		return
	}
	b.a.clock.at(now)
	if b.shared != nil {
		b.a.leave(b.shared)
	}
	one := budget{kind: store.Rolling, amount: min(max(amount, 1), most), window: 2 * coarse(period), slots: 2, once: true}
	one.width = int64(store.Width(&store.Ask{Kind: one.kind, Window: one.window, Slots: one.slots}))
	b.number = number
	b.shared = &shared{budget: one, a: b.a, key: b.name + "\x1f" + strconv.FormatInt(number, 10), outage: b.outage, planned: never}
}

// leave forgets a party, whatever it has: nobody will use it any more.
func (a *Account) leave(p party) {
	if a.meters[p.name()] != p {
		return
	}
	delete(a.meters, p.name())
	a.order = slices.DeleteFunc(a.order, func(o party) bool { return o == p })
}

// coarse is no less than a length of which each instance has its own idea, and the same
// for all of them.
func coarse(period time.Duration) time.Duration {
	step := 1500 * time.Millisecond
	for step < period {
		step *= 4
	}
	return step
}
