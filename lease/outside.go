package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// outside is what is used of a server's limit by those who do not ask the store.
type outside struct {
	whole   int64    // the amount, with what is used outside
	said    int64    // units that the server has said to be used, by anybody
	answers *answers // nil: nobody is thought to use anything outside
}

// now is how much is used outside at most: what the server says, without what all who ask
// the store have had answers to.
func (o *outside) now() int64 {
	if o.answers == nil {
		return 0
	}
	return max(o.said-o.answers.all(), 0)
}

// lower has the amount be what the server leaves to those who ask the store.
func (m *shared) lower(at instant) {
	was := m.amount
	m.amount = max(m.outside.whole-m.outside.now(), 1)
	if m.amount > was && m.waiting > 0 {
		m.pause, m.poll = 0, 0
		if low := m.due(at, false); low <= at.low {
			m.a.stir(m, low)
		}
	}
}

// reportAnswers is after what time it is said to how many requests there were answers.
const reportAnswers = 250 * int64(time.Millisecond)

// answers is to how many requests of a window there were answers: here, and at all
// instances. The store keeps it as a budget of which nobody wants anything.
type answers struct {
	of *shared
	record
	n, said int64 // here; and in the last ask
	others  int64
	changed int64 // low: since when n is not said
	planned int64
	flying  bool
	again   bool
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
	c.of.a.stir(c, c.changed+reportAnswers)
}

func (c *answers) name() string   { return c.of.key + "\x1fanswers" }
func (c *answers) when() int64    { return c.planned }
func (c *answers) plan(low int64) { c.planned = low }
func (c *answers) lost(instant)   { c.flying, c.again = false, true }
func (c *answers) renew(instant)  { c.again = true }

func (c *answers) due(at instant, eager bool) int64 {
	switch {
	case c.flying, !c.of.known.set: // its windows are not known
		return never
	case c.again, eager && c.changed != 0:
		return at.low
	case c.changed != 0:
		return c.changed + reportAnswers
	}
	return never
}

func (c *answers) ask(time.Time, instant) store.Ask {
	m := c.of
	ask := store.Ask{Key: c.name(), Kind: m.kind, Amount: most, Window: m.window, Slots: m.slots}
	c.record.say(&ask)
	if c.n > 0 {
		ask.Holds = []store.Holding{{Window: m.known.window, N: c.n}}
	}
	c.said, c.changed, c.flying, c.again = c.n, 0, true, false
	return ask
}

func (c *answers) hear(_ time.Time, at, _ instant, ans *store.Answer) {
	c.flying = false
	switch ans.Status {
	case store.Done, store.Foreign:
		c.record.hear(at, ans, 0)
		c.others = max(most-ans.Remaining-c.said, 0)
		c.of.lower(at)
	case store.Failed:
	default:
		c.again = true
	}
}

func (c *answers) done(at instant) bool {
	return !c.flying && !c.again && c.changed == 0 && c.of.done(at)
}
