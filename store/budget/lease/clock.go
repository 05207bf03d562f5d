package lease

import "time"

const (
	// start is where an account's clock begins, so that 0 is before every time.
	start = int64(time.Hour)
	// never is later than every time.
	never = int64(1) << 62
	// minClockJump is how far the wall clock may run ahead before that counts as a jump:
	// two readings are never taken at the same moment.
	minClockJump = int64(100 * time.Millisecond)
)

// instant is a time in nanoseconds of an account's clock. While a machine sleeps, or when
// its clock is set, the passed time is unknown: at least up to low, at most up to high.
type instant struct{ low, high int64 }

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

// past converts a time that the caller has kept; known is false if it could mean two
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
