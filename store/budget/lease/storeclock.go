package lease

import (
	"time"
)

const (
	// minClockStep is the deviation from which the store's clock counts as set. It may also
	// be faster or slower than this machine's clock by one part in driftPart.
	minClockStep = int64(100 * time.Millisecond)
	driftPart    = 1000
	// maxClockSteps bounds the steps that are remembered.
	maxClockSteps = 8
	// minClockLag is how far a budget must be ahead of the store's clock before it is
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

// step is that the store's clock was set forward: without that it would have been between
// low and high at this time.
type step struct{ at, low, high int64 }

// ClockFault is what is wrong with a store's clock.
type ClockFault struct {
	Step   time.Duration // the clock was set by this much
	Behind time.Duration // the clock is behind its own budgets by this much; they stand still until then
}

// observe takes a reading of the store's clock, made between sent and at.
func (c *storeClock) observe(sent, at instant, now time.Time) {
	t, slept := now.UnixNano(), at.high-at.low
	low, high := t-at.low, t-sent.low+slept-(sent.high-sent.low)
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
	return at.low + c.high + c.tolerance(at) + at.high - at.low - c.slept
}
