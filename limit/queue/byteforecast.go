package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// step is how much is waited for at once where bytes pass a few at a time.
	step = 16 << 10
	// mostSteps is after how many of these the rest is taken to be as what came before.
	mostSteps = 4096
)

// meterCopy is a copy of a meter, to try out what comes.
type meterCopy struct {
	m     limit.Meter // nil: nothing is known of it but from
	from  time.Time   // before which nothing passes
	whole int64       // the most that it can have
}

// Forecast is when n more bytes could have passed the limits, if no other connection took
// any, and the longest pause on the way. The time is never too late. ok is false if the
// bytes can never pass or the time is not known.
func (t *ByteSource) Forecast(n int64) (at time.Time, pause time.Duration, ok bool) {
	s := t.site
	s.mu.Lock()
	now := s.gate.clock.Now()
	if !t.closed {
		t.follow(now)
	}
	meters := make([]meterCopy, 0, len(t.resources))
	for _, res := range t.resources {
		if res.meter != nil {
			meters = append(meters, res.copy(now, n))
		}
	}
	s.mu.Unlock()
	return forecastBytes(now, meters, n)
}

// copy is an independent copy of the resource's meter. A meter that is kept elsewhere is
// copied only as far as it answers: the copy is unused, so that a forecast is never too
// late.
func (r *resource) copy(now time.Time, n int64) meterCopy {
	c := meterCopy{from: now, whole: r.measure(now).whole}
	first := min(n, step)
	if r.fresh == nil {
		first = n
	} else if c.m = r.fresh(); c.m != nil {
		first = min(first, max(c.whole/4, 1))
		if c.m.Restore(now, r.meter.State()) != nil {
			c.m = r.fresh()
		}
	}
	if r.meter.Left(now) >= first {
		return c
	}
	at, ok := r.meter.When(now, first)
	switch {
	case !ok, at.Sub(now) > far && r.demand == nil:
		c.from = limit.Unknown
	case at.Sub(now) <= far && at.After(now):
		c.from = at
	}
	return c
}

// forecastBytes passes n bytes through copies of meters.
func forecastBytes(now time.Time, meters []meterCopy, n int64) (at time.Time, pause time.Duration, ok bool) {
	all := n
	at = now
	for range mostSteps {
		if n <= 0 {
			return at, pause, true
		}
		part, need := n, min(n, step)
		for i := range meters {
			if c := &meters[i]; c.m != nil {
				need = min(need, max(c.whole/4, 1)) // a bucket that is full loses time
				part = min(part, c.m.Left(at))
			}
		}
		next := at
		for i := range meters {
			c := &meters[i]
			if c.from.After(next) {
				next = c.from
			}
			if c.m == nil || part >= need {
				continue
			}
			if t, fits := c.m.When(at, need); !fits {
				return at, pause, false
			} else if t.After(next) {
				next = t
			}
		}
		if next.Sub(now) > far {
			return at, pause, false
		}
		if next.After(at) {
			pause = max(pause, next.Sub(at))
			at = next
			continue
		}
		part = max(part, need)
		for i := range meters {
			if c := &meters[i]; c.m != nil {
				c.m.Take(at, part)
				c.m.Done(at, at, part, limit.Abandoned)
			}
		}
		n -= part
	}
	return extrapolate(now, at, pause, all-n, n)
}

// extrapolate passes the rest at the average speed of the bytes that have passed,
// including those that were available at first: rather too early than too late.
func extrapolate(now, at time.Time, pause time.Duration, passed, rest int64) (time.Time, time.Duration, bool) {
	took := float64(at.Sub(now)) * (1 + float64(rest)/float64(max(passed, 1)))
	if took > float64(far) {
		return at, pause, false
	}
	return now.Add(time.Duration(took)), pause, true
}
