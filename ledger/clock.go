package ledger

import (
	"math"
	"time"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)

	// credible is the farthest that an announced time is believed, and incredible
	// is how long one is kept that was announced for longer.
	credible   = 31 * 24 * hour
	incredible = 24 * hour

	// edge is the farthest time that is counted, in the year 2242.
	edge = int64(1<<33) * second

	// most is the largest amount of anything, so that sums cannot overflow.
	most = int64(1) << 50
)

// clock never goes back: nanoseconds since 1970, which stand still while the
// caller's clock is behind where it has been.
type clock struct {
	base time.Time // times are measured from it, so that a monotonic reading counts
	zero int64     // base in nanoseconds since 1970
	skew int64     // by how much the caller's clock has gone back in all
	last int64
	set  bool
}

func (c *clock) at(now time.Time) int64 {
	if !c.set {
		c.base, c.zero, c.set = now, nanos(now), true
		c.last = c.zero
		return c.last
	}
	v := c.on(now)
	if v < c.last {
		c.skew += c.last - v
		return c.last
	}
	c.last = v
	return v
}

// on is a time of the caller's, or an announced one, on this clock.
func (c *clock) on(t time.Time) int64 {
	d := int64(t.Sub(c.base))
	if d > edge-c.zero {
		return edge
	}
	return min(max(c.zero+d, 0)+c.skew, edge)
}

// time is v for a caller for whom it is now.
func (c *clock) time(now time.Time, v int64) time.Time {
	if v <= c.last {
		return now
	}
	return now.Add(time.Duration(v - c.last))
}

func nanos(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec >= edge/second:
		return edge
	case sec < 0:
		return 0
	}
	return t.UnixNano()
}

// plus is v and some seconds, which may be absurdly many.
func plus(v int64, seconds float64) int64 {
	n := seconds * float64(second)
	if !(n < float64(credible)) {
		return v + credible
	}
	return v + int64(math.Ceil(max(n, 0)))
}

// number is an amount that was said, -1 if it says nothing.
func number(n float64, known bool) float64 {
	if !known || math.IsNaN(n) {
		return -1
	}
	return min(max(n, 0), float64(most))
}

func whole(n float64) int64 { return int64(min(max(n, -float64(most)), float64(most))) }

func amount(n int64) int64 { return min(max(n, 0), most) }
