package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// start is the first time of an account's clock, so that 0 is before every time.
	start  = int64(time.Hour)
	second = int64(time.Second)
	// never is later than every time.
	never = int64(1) << 62
	// minClockJump is the deviation of the wall clock from which it counts as a jump: two
	// readings are never taken at the same moment.
	minClockJump = int64(100 * time.Millisecond)
)

// instant is a time in nanoseconds of an account's clock. While a machine sleeps, or when
// its clock is set, the passed time is unknown: at least up to low, at most up to high.
type instant struct{ low, high int64 }

// slept returns the time that may have passed without the monotonic reading, until then.
func (t instant) slept() int64 { return t.high - t.low }

// clock measures time by the monotonic reading of the times it gets, if they have one. It
// is not safe for concurrent use.
type clock struct {
	base      time.Time
	wall      int64 // base by the wall clock
	drift     int64 // how far the wall clock was ahead of the monotonic reading
	slept     int64 // time that may have passed without the monotonic reading
	highest   int64 // the latest time so far
	ambiguous int64 // caller's times up to here may mean two instants
	set       bool
}

func (c *clock) at(now time.Time) instant {
	if !c.set {
		c.base, c.wall, c.highest, c.set = now, now.UnixNano(), start, true
		return instant{start, start}
	}
	passed := int64(now.Sub(c.base))
	drift := now.UnixNano() - c.wall - passed
	switch by := drift - c.drift; {
	case by > minClockJump:
		c.slept, c.drift = c.slept+by, drift
	case by < -minClockJump:
		c.drift = drift
	}
	if v := start + passed; v >= c.highest {
		c.highest = v
	} else {
		c.ambiguous = c.highest
	}
	return instant{c.highest, c.highest + c.slept}
}

// past converts an earlier time of the caller's clock; known is false if it could mean two
// instants.
func (c *clock) past(t time.Time) (low int64, known bool) {
	if !c.set {
		return 0, false
	}
	v := start + int64(t.Sub(c.base))
	return v, v > c.ambiguous && v <= c.highest
}

// low converts a time of the caller's clock.
func (c *clock) low(t time.Time) int64 { return start + int64(t.Sub(c.base)) }

// time converts an instant to the caller's clock.
func (c *clock) time(low int64) time.Time { return c.base.Add(time.Duration(low - start)) }

const (
	// minClockStep is the deviation from which the store's clock counts as set. It may also
	// be faster or slower than this machine's clock by one part in driftPart.
	minClockStep = int64(100 * time.Millisecond)
	driftPart    = 1000
	// maxClockSteps bounds the steps that are remembered.
	maxClockSteps = 8
	// minClockLag is the lead of a budget over the store's clock from which it is
	// reported.
	minClockLag = time.Second
)

// storeClock estimates the store's clock: between low and high ahead of the account's
// clock.
type storeClock struct {
	set       bool
	low, high int64
	at        int64 // low: time of the estimate
	slept     int64 // clock.slept at that time
	steps     []step
	sets      int // how often it was set
	fault     ClockFault
}

// step records that the store's clock was set forward at a time: without that it would
// have been between low and high then.
type step struct{ at, low, high int64 }

// ClockFault describes errors of a store's clock.
type ClockFault struct {
	Step   time.Duration // the clock was set by this much
	Behind time.Duration // the clock is behind its own budgets by this much; they stand still until then
}

// observe takes a reading of the store's clock, made between sent and at.
func (c *storeClock) observe(sent, at instant, now time.Time) {
	t, slept := now.UnixNano(), at.slept()
	low, high := t-at.low, t-sent.low+slept-sent.slept()
	if c.set {
		least, most := c.low-c.tolerance(at), c.latest(at)-at.low
		switch {
		case low > most:
			c.fault.Step, c.sets = time.Duration(low-most), c.sets+1
			c.steps = append(c.steps, step{at.low, at.low + least, at.low + most})
			c.steps = c.steps[max(len(c.steps)-maxClockSteps, 0):]
		case high < least:
			c.fault.Step, c.sets = time.Duration(high-least), c.sets+1
		default:
			low, high = max(low, least), min(high, most)
		}
	}
	c.set, c.low, c.high, c.at, c.slept = true, low, high, at.low, slept
}

func (c *storeClock) tolerance(at instant) int64 { return (at.low-c.at)/driftPart + minClockStep }

// latest is the upper bound of the store's clock at an instant, unless it was set.
func (c *storeClock) latest(at instant) int64 {
	return at.low + c.high + c.tolerance(at) + at.slept() - c.slept
}

// source is a meter with something to ask or to remember, and what its account knows of it.
type source struct {
	meter       askSource
	name        string
	planned     int64  // low: from when there may be something to ask; never: not by time alone
	asked       uint64 // number of the ask under way; 0: none is
	mustRestate bool   // what is held must be stated, whatever is wanted
}

// askSource is a meter, as its account uses it to make Batches.
type askSource interface {
	due(at instant) int64                                       // due is the time from which there is something to ask
	ask(now time.Time, at instant, seq uint64) store.Ask        // ask makes the ask with that number
	receive(now time.Time, at, sent instant, ans *store.Answer) // receive takes the answer; ans.Seq is that of the ask
	answerLost(at instant)                                      // answerLost tells that the answer is lost
	forgettable(at instant) bool                                // forgettable tells whether there is nothing to remember, but for an ask
}

// lender is a meter of leases.
type lender interface {
	restate()   // the store may have lost all state
	loan() Loan // the units that were taken without the store since the last call
}

// answerLost records that the result of the ask is unknown.
func (s *source) answerLost(at instant) {
	s.asked, s.mustRestate = 0, true
	s.meter.answerLost(at)
}

// forgettable tells whether there is nothing to remember.
func (s *source) forgettable(at instant) bool {
	return s.asked == 0 && !s.mustRestate && s.meter.forgettable(at)
}
