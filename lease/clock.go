package lease

import "time"

const (
	// start is where an account's clock begins, so that 0 is before everything.
	start = int64(time.Hour)
	// never is later than everything.
	never = int64(1) << 62
	// leap is by how much the clock on the wall may run ahead before that means
	// something: two readings are never taken at the same moment.
	leap = int64(100 * time.Millisecond)
)

// instant is a moment in nanoseconds of an account's clock. Where a machine slept, or
// its clock was set, nobody knows how much time went by: no less than to low, and no
// more than to high.
type instant struct{ low, high int64 }

// clock measures by the monotonic reading of the times it is shown, if they have one.
type clock struct {
	base  time.Time
	wall  int64 // base on the wall
	drift int64 // how far the wall was ahead of the monotonic reading
	slept int64 // what may have passed that the monotonic reading does not have
	last  int64
	fog   int64 // caller's times up to here may mean two moments
	set   bool
}

func (c *clock) at(now time.Time) instant {
	if !c.set {
		c.base, c.wall, c.last, c.set = now, now.UnixNano(), start, true
		return instant{start, start}
	}
	passed := int64(now.Sub(c.base))
	drift := now.UnixNano() - c.wall - passed
	switch by := drift - c.drift; {
	case by > leap:
		c.slept, c.drift = c.slept+by, drift
	case by < -leap:
		c.drift = drift
	}
	if v := start + passed; v >= c.last {
		c.last = v
	} else {
		c.fog = c.last
	}
	return instant{c.last, c.last + c.slept}
}

// past is a moment that the caller remembers; known is false when that could mean two.
func (c *clock) past(t time.Time) (low int64, known bool) {
	if !c.set {
		return 0, false
	}
	v := start + int64(t.Sub(c.base))
	return v, v > c.fog && v <= c.last
}

// low is a moment of the caller's clock.
func (c *clock) low(t time.Time) int64 { return start + int64(t.Sub(c.base)) }

// time is a moment as the caller's clock shows it.
func (c *clock) time(low int64) time.Time { return c.base.Add(time.Duration(low - start)) }
