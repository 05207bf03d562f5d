package limit

import (
	"math"
	"time"
)

// meter is a Meter of this package, with what Move needs: a configuration that is reloaded may change
// a limit to another kind, and what was taken stays taken. A meter has a history, which counter keeps
// and State stores. bucket.go shows all of it.
type meter interface {
	Meter

	// at is the time on the meter's clock, with everything done that is due by then.
	at(now time.Time) int64

	// past is the history.
	past() *history

	// counted returns how many units count at v within a length of time, remembered or not.
	counted(v int64) (within, units int64)

	// replay makes a new meter count the takes of another, which are in its history.
	replay(v int64, list []Spent)

	// become changes the meter to the numbers of to, a new meter of its type. It returns nil
	// if both are too different. list is the meter's own past. Earlier takes can still be
	// given back and settled.
	become(now time.Time, to Meter, list []Spent) Meter
}

// core says of one kind of meter how much may be taken and when, at times of its clock. A
// counter makes a Meter of it.
type core interface {
	meter

	earlier(t time.Time) (v int64, known bool) // converts a time that the caller has kept; known is false if it could mean two times
	most() int64                               // the largest amount that can be taken at once
	when(v, n int64) int64                     // the time from which n may be taken, at most most
	take(v, n int64)                           // n is more than 0, as in the following
	more(v, at, n int64)                       // a take at a time turned out to cost n more; math.MinInt64: that time is not known
	less(v, at, n int64)                       // a take at a time turned out to cost n less, or was given back
	left(v int64) int64                        // how much may be taken now; may be negative
	idle(v int64) bool                         // see Meter
}

// counter does for all meters of amounts over time what they do alike, and keeps their history.
// A meter that embeds it is made with counting.
type counter struct {
	self  core // the meter
	spent history
}

// counting lets the counter of a new meter know the meter.
func counting[M interface {
	core
	counts(self core)
}](m M) M {
	m.counts(m)
	return m
}

func (c *counter) counts(self core) { c.self = self }

func (c *counter) past() *history { return &c.spent }

func (c *counter) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 || n > c.self.most() {
		return now, n <= 0
	}
	v := c.self.at(now)
	return now.Add(time.Duration(max(c.self.when(v, n)-v, 0))), true
}

func (c *counter) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := c.self.at(now)
	c.self.take(v, n)
	c.spent.add(v, n)
}

// Postpone is Give at the old time and Take now.
func (c *counter) Postpone(now, taken time.Time, n int64) {
	c.self.Give(now, taken, n)
	c.self.Take(now, n)
}

func (c *counter) Give(now, taken time.Time, n int64) { c.self.Settle(now, taken, n, 0) }

func (c *counter) Settle(now, taken time.Time, estimate, actual int64) {
	v := c.self.at(now)
	at, known := c.self.earlier(taken)
	if !known {
		at = math.MinInt64
	}
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		c.self.more(v, at, more)
		c.spent.add(v, more)
	case more < 0 && known:
		c.spent.remove(at, -more)
		c.self.less(v, at, -more)
	}
}

func (c *counter) Done(_, _ time.Time, _ int64, _ Outcome) {}

func (c *counter) Left(now time.Time) int64 { return max(c.self.left(c.self.at(now)), 0) }

func (c *counter) Idle(now time.Time) bool { return c.self.idle(c.self.at(now)) }
