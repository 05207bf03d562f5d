package lease

import (
	"cmp"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/limit"
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

// Window implements ledger.Budget. Leases of other windows expire.
//
// Instances disagree about the end of a window by some seconds, and their clocks by more.
// So the store does not know the end: each window has a budget of its own, from which
// nothing is returned for longer than the window lasts.
func (b *Announced) Window(now time.Time, number, amount int64, period time.Duration) (outside int64) {
	if b.shared != nil && b.number == number {
		if b.outside.amount != amount {
			b.outside.amount, b.src.mustRestate = amount, true
			at := b.a.clock.at(now)
			b.applyOutsideUse(at)
			b.a.schedule(b.src, at.low)
		}
		return 0
	}
	b.a.clock.at(now)
	if b.shared != nil {
		outside = b.outside.usedOutside()
		b.a.remove(b.src)
		if c := b.outside.answers; c != nil {
			b.a.remove(c.src)
		}
	}
	item := budget{kind: store.Rolling, amount: min(max(amount, 1), maxAmount), window: 2 * roundedWindow(period), slots: 2, once: true}
	item.width = int64(store.Width(&store.Ask{Kind: item.kind, Window: item.window, Slots: item.slots}))
	b.number = number
	b.shared = newShared(b.a, b.a.source(b.name+"\x1f"+strconv.FormatInt(number, 10)), item, b.outage)
	b.outside.amount = item.amount
	return outside
}

// Said implements ledger.Budget.
func (b *Announced) Said(now time.Time, used, answered int64, outside bool) {
	o, at := &b.outside, b.a.clock.at(now)
	o.used = max(o.used, used)
	if outside && o.answers == nil {
		o.answers = &answers{meter: b.shared, src: b.a.source(b.src.name + "\x1fanswers")}
		o.answers.src.meter = o.answers
	}
	if o.answers != nil {
		o.answers.count(at, answered)
	}
	b.applyOutsideUse(at)
}

// OnMachine is the budget of a limit that a server announces, for the processes of this machine. Nothing may be taken
// before Window is called.
type OnMachine struct {
	Name string
	Open func() *Account // of its site

	number int64
	*durable
}

// windowsKept is the number of windows of a limit that have a budget in the store, which counts for up to eight lengths of a window.
const windowsKept = 9

// Window implements ledger.Budget.
func (b *OnMachine) Window(now time.Time, number, amount int64, period time.Duration) (outside int64) {
	spec := limit.Spec{As: limit.Rolling, Amount: min(max(amount, 1), maxAmount), Window: 2 * roundedWindow(period)}
	if b.durable != nil && b.number == number {
		b.Change(now, spec, nil)
		return 0
	}
	m, err := limit.New(spec)
	if err != nil {
		return 0
	}
	b.number = number // the budget of the window before still tells what was taken of it
	b.durable = b.Open().Durable(b.Name+"\x1f"+strconv.FormatInt(number%windowsKept, 10), spec, m, store.Origin{}).(*durable)
	return 0
}

// Said does nothing: the ledger itself goes by what the server says is left.
func (b *OnMachine) Said(time.Time, int64, int64, bool) {}

// roundedWindow rounds a length up, so that instances with slightly different values get
// the same.
func roundedWindow(period time.Duration) time.Duration {
	step := 1500 * time.Millisecond
	for step < period {
		step *= 4
	}
	return step
}

// outside measures the use of a server's limit by clients outside of the fleet, which do
// not ask the store.
type outside struct {
	amount  int64    // the amount, including outside use
	used    int64    // units that the server reports as used, by any client
	answers *answers // nil: no outside use is assumed
}

// usedOutside returns an upper bound of outside use: the units that the server reports
// minus the answered requests of the fleet.
func (o *outside) usedOutside() int64 {
	if o.answers == nil {
		return 0
	}
	return max(o.used-o.answers.all(), 0)
}

// applyOutsideUse sets the amount to what the server leaves for the fleet.
func (m *shared) applyOutsideUse(at instant) {
	was := m.held.budget.amount
	m.held.budget.amount = max(m.outside.amount-m.outside.usedOutside(), 1)
	if m.held.budget.amount > was && m.demand.waiting > 0 {
		m.demand.pollPause, m.demand.pollAt = 0, 0
		m.a.schedule(m.src, m.due(at))
	}
}

// answerReportDelay is the time after which the number of answered requests is reported.
const answerReportDelay = 250 * int64(time.Millisecond)

// answers counts the answered requests of a window, here and at all instances. The store
// has the count as a budget of which nothing is wanted.
type answers struct {
	meter *shared
	src   *source
	record
	n, lastSaid int64 // here; lastSaid: in the last ask
	others      int64
	changed     int64 // low: since when n is not reported
}

func (c *answers) all() int64 { return c.others + c.n }

func (c *answers) count(at instant, n int64) {
	if n <= c.n {
		return
	}
	c.n = n
	c.changed = cmp.Or(c.changed, at.low)
	c.meter.a.schedule(c.src, c.changed+answerReportDelay)
}

func (*answers) answerLost(instant) {}

func (c *answers) due(at instant) int64 {
	switch {
	case c.src.asked != 0, !c.meter.held.known.set: // the windows are not known yet
		return never
	case c.src.mustRestate:
		return at.low
	case c.changed != 0:
		return c.changed + answerReportDelay
	}
	return never
}

func (c *answers) ask(time.Time, instant, uint64) store.Ask {
	b := &c.meter.held.budget
	ask := store.Ask{Kind: b.kind, Amount: maxAmount, Window: b.window, Slots: b.slots}
	c.record.say(&ask)
	if c.n > 0 {
		ask.Holds = []store.Holding{{Window: c.meter.held.known.window, N: c.n}}
	}
	c.lastSaid, c.changed = c.n, 0
	return ask
}

func (c *answers) receive(_ time.Time, at, _ instant, ans *store.Answer) {
	switch ans.Status {
	case store.Done, store.Foreign:
		c.record.receive(at, ans, 0)
		c.others = max(maxAmount-ans.Remaining-c.lastSaid, 0)
		c.meter.applyOutsideUse(at)
	case store.Failed:
	default:
		c.src.mustRestate = true
	}
}

func (c *answers) forgettable(at instant) bool {
	return c.changed == 0 && c.meter.src.forgettable(at)
}
