package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// outside is the use of a server's limit by clients outside of the fleet, which do not ask
// the store.
type outside struct {
	amount  int64    // the amount, including outside use
	used    int64    // units that the server reports as used, by any client
	answers *answers // nil: no outside use is assumed
}

// usedOutside is an upper bound of outside use: what the server reports minus the answered
// requests of the fleet.
func (o *outside) usedOutside() int64 {
	if o.answers == nil {
		return 0
	}
	return max(o.used-o.answers.all(), 0)
}

// applyOutsideUse sets the amount to what the server leaves for the fleet.
func (m *shared) applyOutsideUse(at instant) {
	was := m.amount
	m.amount = max(m.outside.amount-m.outside.usedOutside(), 1)
	if m.amount > was && m.waiting > 0 {
		m.pollPause, m.pollAt = 0, 0
		if low := m.due(at, false); low <= at.low {
			m.a.schedule(m, low)
		}
	}
}

// answerReportDelay is when the number of answered requests is reported.
const answerReportDelay = 250 * int64(time.Millisecond)

// answers counts the answered requests of a window, here and at all instances. The store
// keeps it as a budget of which nothing is wanted.
type answers struct {
	meter *shared
	record
	n, lastSaid int64 // here; lastSaid: in the last ask
	others      int64
	changed     int64 // low: since when n is not reported
	planned     int64
	inFlight    bool
	mustRestate bool
}

func (c *answers) all() int64 { return c.others + c.n }

func (c *answers) count(at instant, n int64) {
	if n <= c.n {
		return
	}
	c.n = n
	if c.changed == 0 {
		c.changed = at.low
	}
	c.meter.a.schedule(c, c.changed+answerReportDelay)
}

func (c *answers) name() string         { return c.meter.key + "\x1fanswers" }
func (c *answers) plannedAt() int64     { return c.planned }
func (c *answers) setPlanned(low int64) { c.planned = low }
func (c *answers) answerLost(instant)   { c.inFlight, c.mustRestate = false, true }
func (c *answers) restate(instant)      { c.mustRestate = true }

func (c *answers) due(at instant, eager bool) int64 {
	switch {
	case c.inFlight, !c.meter.known.set: // the windows are not known yet
		return never
	case c.mustRestate, eager && c.changed != 0:
		return at.low
	case c.changed != 0:
		return c.changed + answerReportDelay
	}
	return never
}

func (c *answers) ask(time.Time, instant) store.Ask {
	m := c.meter
	ask := store.Ask{Key: c.name(), Kind: m.kind, Amount: maxAmount, Window: m.window, Slots: m.slots}
	c.record.say(&ask)
	if c.n > 0 {
		ask.Holds = []store.Holding{{Window: m.known.window, N: c.n}}
	}
	c.lastSaid, c.changed, c.inFlight, c.mustRestate = c.n, 0, true, false
	return ask
}

func (c *answers) receive(_ time.Time, at, _ instant, ans *store.Answer) {
	c.inFlight = false
	switch ans.Status {
	case store.Done, store.Foreign:
		c.record.receive(at, ans, 0)
		c.others = max(maxAmount-ans.Remaining-c.lastSaid, 0)
		c.meter.applyOutsideUse(at)
	case store.Failed:
	default:
		c.mustRestate = true
	}
}

func (c *answers) forgettable(at instant) bool {
	return !c.inFlight && !c.mustRestate && c.changed == 0 && c.meter.forgettable(at)
}

func (c *answers) takeLoan() Loan { return Loan{} }

func (c *answers) uses(time.Time, uint64) []store.Use { return nil }
