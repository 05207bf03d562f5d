package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// quantum is how much is waited for at once where bytes pass a few at a time.
	quantum = 16 << 10
	// steps is after how many of these the rest is taken to be as what came before.
	steps = 4096
)

// copied is a meter that stands as a slot's does, for trying out what comes.
type copied struct {
	m     limit.Meter // nil: nothing is known of it but from
	from  time.Time   // before which nothing passes
	whole int64       // the most that it can have
}

// Foresee is when n more bytes could have passed by the limits, as far as is known
// and if nobody else had any, and the longest time on the way in which none could. It
// is not too late, and not ok if it is never or nobody can tell.
func (t *Tap) Foresee(n int64) (at time.Time, pause time.Duration, ok bool) {
	s := t.site
	s.mu.Lock()
	now := time.Now()
	if !t.closed {
		t.follow(now)
	}
	meters := make([]copied, 0, len(t.slots))
	for _, slot := range t.slots {
		if slot.meter != nil {
			meters = append(meters, slot.copy(now, n))
		}
	}
	s.mu.Unlock()
	return foresee(now, meters, n)
}

// copy is a meter like the slot's that is nobody's. Of one that is kept elsewhere it
// only knows what that tells: the copy is unused, so that it is never too late.
func (s *Slot) copy(now time.Time, n int64) copied {
	c := copied{from: now, whole: s.measure(now).whole}
	first := min(n, quantum)
	if s.fresh == nil {
		first = n
	} else if c.m = s.fresh(); c.m != nil {
		first = min(first, max(c.whole/4, 1))
		if c.m.Restore(now, s.meter.State()) != nil {
			c.m = s.fresh()
		}
	}
	if s.meter.Left(now) >= first {
		return c
	}
	at, ok := s.meter.When(now, first)
	switch {
	case !ok, at.Sub(now) > far && s.demand == nil:
		c.from = limit.Unknown
	case at.Sub(now) <= far && at.After(now):
		c.from = at
	}
	return c
}

// foresee lets n bytes pass meters that nobody else has.
func foresee(now time.Time, meters []copied, n int64) (at time.Time, pause time.Duration, ok bool) {
	all := n
	at = now
	for range steps {
		if n <= 0 {
			return at, pause, true
		}
		part, need := n, min(n, quantum)
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

// extrapolate lets the rest pass as fast as so many have, and what was there at first
// among them: rather too early than too late.
func extrapolate(now, at time.Time, pause time.Duration, passed, rest int64) (time.Time, time.Duration, bool) {
	took := float64(at.Sub(now)) * (1 + float64(rest)/float64(max(passed, 1)))
	if took > float64(far) {
		return at, pause, false
	}
	return now.Add(time.Duration(took)), pause, true
}
