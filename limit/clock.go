package limit

import (
	"math"
	"time"
)

// FarFuture is the farthest time that is counted, in the year 2242, in nanoseconds since 1970. The end
// of a window that begins then still fits 64 bits. 2*FarFuture does not: add with plus where both
// numbers may be so large.
const FarFuture = int64(1<<33) * int64(time.Second)

// nanos is t in nanoseconds since 1970, clamped.
func nanos(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec >= FarFuture/int64(time.Second):
		return FarFuture
	case sec < 0:
		return 0
	}
	return t.UnixNano()
}

// Clock is a clock that never goes back: nanoseconds since 1970, which stand still while
// the caller's clock is behind its latest time. The zero value starts at the first time it
// gets. It is not safe for concurrent use. It differs from wallClock, which goes back with
// the caller's, and from lease's clock, which accounts for sleep of the machine.
type Clock struct {
	base      time.Time // the first time; times are measured from it, so that a monotonic reading counts
	zero      int64     // base in nanoseconds since 1970
	skew      int64     // sum of all steps back of the caller's clock
	last      int64     // the latest time on this clock
	ambiguous int64     // caller's times up to here may mean two times, before and after a step back
	set       bool
}

// At is the time on this clock.
func (c *Clock) At(now time.Time) int64 {
	if !c.set {
		c.base, c.zero = now, nanos(now)
		c.last, c.ambiguous, c.set = c.zero, math.MinInt64, true
		return c.last
	}
	v := c.On(now)
	if v < c.last {
		c.ambiguous = max(c.ambiguous, c.last-c.skew)
		c.skew += c.last - v
		return c.last
	}
	c.last = v
	return v
}

// Last is the latest time that At has returned.
func (c *Clock) Last() int64 { return c.last }

// On converts a time of the caller's clock, or one announced by a server, to this clock.
func (c *Clock) On(t time.Time) int64 { return min(c.raw(t), FarFuture-c.skew) + c.skew }

// Time converts v to the caller's clock, which now shows now.
func (c *Clock) Time(now time.Time, v int64) time.Time {
	return now.Add(time.Duration(max(v-c.last, 0)))
}

// past converts a time that the caller has kept. known is false if it could mean two times.
func (c *Clock) past(t time.Time) (v int64, known bool) {
	if !c.set {
		return 0, false
	}
	raw := c.raw(t)
	return raw + c.skew, raw > c.ambiguous && raw <= c.last-c.skew
}

func (c *Clock) raw(t time.Time) int64 {
	d := int64(t.Sub(c.base))
	if d > FarFuture-c.zero {
		return FarFuture
	}
	return max(c.zero+d, 0)
}

// restored returns the time by which stored times have to move so that the latest is not in the future.
func (c *Clock) restored(now time.Time, last int64) int64 {
	return min(c.At(now)-last, 0)
}

// wallClock is the wall clock in nanoseconds since 1970, for windows aligned to it. It may
// go back; at returns by how much.
type wallClock struct {
	last      int64
	ambiguous int64 // times up to here may mean two times
	set       bool
}

// at is the time, and how far the clock has gone back since the last call.
func (c *wallClock) at(now time.Time) (v, back int64) {
	v = nanos(now)
	if !c.set {
		c.last, c.ambiguous, c.set = v, math.MinInt64, true
		return v, 0
	}
	if v < c.last {
		c.ambiguous = max(c.ambiguous, c.last)
		back = c.last - v
	}
	c.last = v
	return v, back
}

// past is as Clock.past.
func (c *wallClock) past(t time.Time) (v int64, known bool) {
	v = nanos(t)
	return v, c.set && v > c.ambiguous && v <= c.last
}

// plus is v plus d, clamped.
func plus(v, d int64) int64 {
	if d > math.MaxInt64-v {
		return math.MaxInt64
	}
	return v + d
}

// nanoseconds converts seconds, rounded up and clamped.
func nanoseconds(seconds float64) int64 {
	if seconds >= float64(FarFuture)/1e9 {
		return FarFuture
	}
	return int64(math.Ceil(seconds * 1e9))
}
