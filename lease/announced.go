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
// It returns how much of that was used by those who do not ask the store, at most.
//
// Instances differ about the end of a window by some seconds, and their clocks by more.
// So the store does not know it: each window has a budget of its own, from which nothing
// comes back for longer than it lasts.
func (b *Announced) Window(now time.Time, number, amount int64, period time.Duration) (outside int64) {
	if b.shared != nil && b.number == number {
		if b.outside.whole != amount {
			b.outside.whole, b.again = amount, true
			at := b.a.clock.at(now)
			b.lower(at)
			b.a.stir(b.shared, at.low)
		}
		return 0
	}
	b.a.clock.at(now)
	if b.shared != nil {
		outside = b.outside.now()
		b.a.leave(b.shared)
		if c := b.outside.answers; c != nil {
			b.a.leave(c)
		}
	}
	one := budget{kind: store.Rolling, amount: min(max(amount, 1), most), window: 2 * coarse(period), slots: 2, once: true}
	one.width = int64(store.Width(&store.Ask{Kind: one.kind, Window: one.window, Slots: one.slots}))
	b.number = number
	b.shared = &shared{budget: one, a: b.a, key: b.name + "\x1f" + strconv.FormatInt(number, 10), outage: b.outage, planned: never}
	b.outside.whole = one.amount
	return outside
}

// Said says how much of the window the server has said to be used, by anybody, and to how
// many requests of this instance there were answers. With outside, somebody is thought to
// use some of it who does not ask the store.
func (b *Announced) Said(now time.Time, used, answered int64, outside bool) {
	o, at := &b.outside, b.a.clock.at(now)
	o.said = max(o.said, used)
	if outside && o.answers == nil {
		o.answers = &answers{of: b.shared, planned: never}
	}
	if o.answers != nil {
		o.answers.count(at, answered)
	}
	b.lower(at)
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
