package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// draw is an amount of bytes that a request or a tunnel which is under way waits
// for.
type draw struct {
	tap     *Tap
	n       int64 // at most
	least   int64
	granted int64
	over    bool
	err     error
	ready   chan struct{} // with room for one
}

// wake tells who waits. It is called once, when the draw is over.
func (d *draw) wake() { d.ready <- struct{}{} }

// pour takes the same amount from each slot: at most n, at least the least, or
// nothing. What could never give the least gives all that it can have.
func pour(now time.Time, slots []*Slot, n, least int64) int64 {
	least = max(min(least, n), 1)
	for _, slot := range slots {
		if slot.meter == nil {
			continue
		}
		left := slot.meter.Left(now)
		if left < least {
			least = slot.within(now, least)
		}
		if left < least {
			if at, ok := slot.meter.When(now, least); !ok || at.After(now) {
				return 0
			}
			left = least
		}
		n = min(n, left)
	}
	for _, slot := range slots {
		if slot.meter != nil {
			slot.meter.Take(now, n)
		}
	}
	return n
}

// within is an amount, or the most that the slot's meter can have.
func (s *Slot) within(now time.Time, n int64) int64 {
	if _, ok := s.meter.When(now, n); ok {
		return n
	}
	return min(n, max(s.measure(now).whole, 1))
}

// lacks is when the slots could give an amount, and after now which of them keeps it
// for longest. The time is limit.Unknown if nobody knows.
func lacks(now time.Time, slots []*Slot, n int64) (by *Slot, at time.Time) {
	at = now
	for _, slot := range slots {
		if slot.meter == nil {
			continue
		}
		t, ok := slot.meter.When(now, slot.within(now, n))
		if !ok || t.Sub(now) > far {
			t = limit.Unknown
		}
		if t.After(at) {
			by, at = slot, t
		}
	}
	return by, at
}

// dry tells whether others wait for one of the slots, who come before.
func dry(slots []*Slot) bool {
	for _, slot := range slots {
		if slot.thirst > 0 {
			return true
		}
	}
	return false
}

// wait puts a draw after all others.
func (s *Scheduler) wait(d *draw) {
	s.draws = append(s.draws, d)
	s.parched = true
}

// drop takes out a draw that nobody waits for any more.
func (s *Scheduler) drop(d *draw) {
	for i := range s.draws {
		if s.draws[i] == d {
			s.draws = append(s.draws[:i], s.draws[i+1:]...)
			s.parched = true
			return
		}
	}
}

// pass lets the draws go on for which there is enough, in the order of their
// arrival. One for which there is not claims what it waits for: nothing behind it,
// and no hold, takes from that slot until it has gone. What it also needs is left
// to others.
func (s *Scheduler) pass(now time.Time) {
	if !s.parched && (s.drawsAt.IsZero() || s.drawsAt.After(now)) {
		return
	}
	before := s.thirsty
	for _, slot := range before {
		slot.thirst = 0
	}
	s.thirsty, s.sated, s.drawsAt = s.sated[:0], before, time.Time{}
	rest := s.draws[:0]
	for _, d := range s.draws {
		if !s.serve(now, d) {
			rest = append(rest, d)
		}
	}
	clear(s.draws[len(rest):])
	s.draws, s.parched = rest, false
	for _, slot := range before {
		slot.mind()
		if slot.thirst == 0 {
			slot.stir()
		}
	}
}

// serve grants a draw, or says what it waits for.
func (s *Scheduler) serve(now time.Time, d *draw) bool {
	slots := d.tap.slots
	for _, slot := range slots {
		if slot.thirst > 0 {
			slot.thirst += d.n
			return false
		}
	}
	if d.granted = s.redeem(now, slots, d.n, d.least); d.granted > 0 {
		d.over = true
		d.tap.took(now, d.granted)
		s.turn.drawn = append(s.turn.drawn, d)
		return true
	}
	by, at := lacks(now, slots, d.least)
	if by == nil { // a rounding
		by, at = slots[0], now.Add(time.Millisecond)
	}
	by.thirst = d.n
	by.mind()
	s.thirsty = append(s.thirsty, by)
	if at.Before(limit.Unknown) && (s.drawsAt.IsZero() || at.Before(s.drawsAt)) {
		s.drawsAt = at
	}
	return false
}
