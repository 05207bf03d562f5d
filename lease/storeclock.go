package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// stepLeast is how far a store's clock may be from where it should be before it was
	// set. It may also be faster or slower than this machine's by one part in driftPart.
	stepLeast = int64(100 * time.Millisecond)
	driftPart = 1000
	// mostSteps is how many steps are remembered.
	mostSteps = 8
	// behindLeast is how far a budget is ahead of the store's clock before that is said.
	behindLeast = time.Second
)

// storeClock is where the clock of a store should be: between low and high ahead of an
// account's clock.
type storeClock struct {
	set       bool
	low, high int64
	at        int64 // low: when that was
	slept     int64 // the account's clock's, then
	steps     []step
	sets      int // how often it was set
	off       Off
}

// step is that a store's clock was set forward: at this moment it would have been
// between low and high.
type step struct{ at, low, high int64 }

// Off is what is wrong with a store's clock.
type Off struct {
	Step   time.Duration // it was set by so much
	Behind time.Duration // it is so far behind what its budgets have seen, which stand still
}

// hear notes what the store's clock has shown between two moments.
func (c *storeClock) hear(sent, at instant, now time.Time) {
	t, slept := now.UnixNano(), at.high-at.low
	low, high := t-at.low, t-sent.low+slept-(sent.high-sent.low)
	if c.set {
		least, most := c.low-c.slack(at), c.latest(at)-at.low
		switch {
		case low > most:
			c.off.Step, c.sets = time.Duration(low-most), c.sets+1
			c.steps = append(c.steps, step{at.low, at.low + least, at.low + most})
			c.steps = c.steps[max(len(c.steps)-mostSteps, 0):]
		case high < least:
			c.off.Step, c.sets = time.Duration(high-least), c.sets+1
		default:
			low, high = max(low, least), min(high, most)
		}
	}
	c.set, c.low, c.high, c.at, c.slept = true, low, high, at.low, slept
}

func (c *storeClock) slack(at instant) int64 { return (at.low-c.at)/driftPart + stepLeast }

// latest is what the store's clock shows at a moment at most, unless it was set.
func (c *storeClock) latest(at instant) int64 {
	return at.low + c.high + c.slack(at) + at.high - at.low - c.slept
}

// bars is until when a window may not be used, because by the store's clock as it was it
// has not begun: the window that was present then may have been used. 0: it may be used.
func (b *budget) bars(c *storeClock, at instant, window int64) (until int64) {
	if !c.set {
		return 0
	}
	for _, s := range append(c.steps, step{at.low, at.low + c.low - c.slack(at), c.latest(at)}) {
		if b.begins(window) <= s.high {
			continue
		}
		present, since := b.at(time.Unix(0, s.high))
		until = max(until, s.at+(s.high-s.low)-since+b.length(present)+b.counts())
	}
	return until
}

// begins is when a window begins, in nanoseconds since 1970.
func (b *budget) begins(window int64) int64 {
	if b.kind == store.Quota {
		return window * int64(time.Second)
	}
	return window * b.width
}

// Off is what is wrong with the store's clock since it was asked last.
func (a *Account) Off() Off {
	off := a.store.off
	a.store.off = Off{}
	return off
}
