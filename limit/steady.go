package limit

import (
	"math"
	"time"
)

// edge is the farthest time that is counted, in the year 2242: later ones would
// not leave room for a window in 64 bits.
const edge = int64(1<<33) * int64(time.Second)

// nanos is t in nanoseconds since 1970, whatever t is.
func nanos(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec >= edge/int64(time.Second):
		return edge
	case sec < 0:
		return 0
	}
	return t.UnixNano()
}

// steady is a clock that never goes back: nanoseconds since 1970, which stand
// still while the caller's clock is behind where it has been. Its zero value
// starts at the first time it is shown.
type steady struct {
	base time.Time // the first time seen; times are measured from it, so that a monotonic reading counts
	zero int64     // base in nanoseconds since 1970
	skew int64     // by how much the caller's clock has gone back in all
	last int64     // the latest time on this clock
	fog  int64     // caller's times up to here may mean two moments, before and after it went back
	set  bool
}

// at is the time on this clock.
func (c *steady) at(now time.Time) int64 {
	if !c.set {
		c.base, c.zero = now, nanos(now)
		c.last, c.fog, c.set = c.zero, math.MinInt64, true
		return c.last
	}
	v := min(c.raw(now), edge-c.skew) + c.skew
	if v < c.last {
		c.fog = max(c.fog, c.last-c.skew)
		c.skew += c.last - v
		return c.last
	}
	c.last = v
	return v
}

// past is when something happened that the caller remembers by its own clock.
// known is false when that could mean two moments.
func (c *steady) past(t time.Time) (v int64, known bool) {
	if !c.set {
		return 0, false
	}
	raw := c.raw(t)
	return raw + c.skew, raw > c.fog && raw <= c.last-c.skew
}

func (c *steady) raw(t time.Time) int64 {
	d := int64(t.Sub(c.base))
	if d > edge-c.zero {
		return edge
	}
	return max(c.zero+d, 0)
}

// restored is by how much stored times have to move so that the latest of them is
// not in the future.
func (c *steady) restored(now time.Time, last int64) int64 {
	return min(c.at(now)-last, 0)
}

// wall is the clock on the wall, in nanoseconds since 1970, for what is aligned to
// it. It may go back; at says by how much.
type wall struct {
	last int64
	fog  int64 // times up to here may mean two moments
	set  bool
}

// at is the time and how far the clock has gone back since it was last seen.
func (c *wall) at(now time.Time) (v, back int64) {
	v = nanos(now)
	if !c.set {
		c.last, c.fog, c.set = v, math.MinInt64, true
		return v, 0
	}
	if v < c.last {
		c.fog = max(c.fog, c.last)
		back = c.last - v
	}
	c.last = v
	return v, back
}

// past is as steady.past.
func (c *wall) past(t time.Time) (v int64, known bool) {
	v = nanos(t)
	return v, c.set && v > c.fog && v <= c.last
}
