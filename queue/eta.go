package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// pace is how fast a slot lets units pass when it is never idle.
type pace struct {
	known bool
	whole int64         // the most that can be taken together
	each  time.Duration // for one unit; 0 is not known, as for what is in flight
}

// measure finds the pace of a meter by using up a fresh one, so that it holds
// for every arithmetic.
func (s *Slot) measure(now time.Time) pace {
	if s.pace.known || s.fresh == nil {
		return s.pace
	}
	s.pace.known = true
	m := s.fresh()
	fits := func(n int64) bool {
		_, ok := m.When(now, n)
		return ok
	}
	low, high := int64(0), int64(1)
	for fits(high) && high < 1<<50 {
		low, high = high, 2*high
	}
	for low+1 < high {
		if mid := low + (high-low)/2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	s.pace.whole = low
	// The second round is a whole one, also when windows follow the clock.
	at := now
	for range 2 {
		start, ok := m.When(at, low)
		if low == 0 || !ok || start.Sub(at) > far {
			return s.pace
		}
		at = start
		m.Take(at, low)
		if end, ok := m.When(at, low); !ok || end.Sub(at) > far {
			return s.pace // nobody knows when, as for what is in flight
		}
		m.Done(at, at, low, limit.Success)
	}
	if end, ok := m.When(at, low); ok && end.Sub(at) < far {
		s.pace.each = end.Sub(at) / time.Duration(low)
	}
	return s.pace
}

// eta is when n more units will have passed, if they go one after the other.
// The zero time says that nobody can tell.
func (s *Slot) eta(now time.Time, n int64) time.Time {
	if s.full(now) {
		return time.Time{}
	}
	at := now
	if s.cool.After(at) {
		at = s.cool
	}
	p := s.measure(now)
	if s.meter == nil || n <= 0 || p.whole == 0 && s.fresh != nil {
		return at
	}
	first := min(n, p.whole)
	if s.fresh == nil {
		first = n // only the meter knows, as far as it does
	}
	t, ok := s.meter.When(now, first)
	if ok && s.demand != nil && n > first && t.Sub(now) > far || ok && s.asking(now, t, first) {
		t = now // nobody knows, but what comes after the first takes its time
	}
	if !ok || t.Sub(now) > far || n > first && p.each == 0 {
		return time.Time{}
	}
	if t.After(at) {
		at = t
	}
	behind := time.Duration(n-first) * p.each
	if n > first && (behind/p.each != time.Duration(n-first) || behind > far) {
		behind = far
	}
	return at.Add(behind)
}

// beyond refuses what is larger than a limit in every alternative.
func beyond(now time.Time, needs [][]Need) *Refusal {
	var refusal *Refusal
	for _, alternative := range needs {
		slot := tooSmall(now, alternative)
		if slot == nil {
			return nil
		}
		refusal = &Refusal{Reason: Never, Limit: slot.name}
	}
	return refusal
}

// tooSmall is the slot that can never give what is needed, or nil.
func tooSmall(now time.Time, needs []Need) *Slot {
	for _, n := range needs {
		if n.Slot.meter == nil || n.N <= 0 {
			continue
		}
		if _, fits := n.Slot.meter.When(now, n.N); !fits && n.Slot.measure(now).whole < n.N {
			return n.Slot
		}
	}
	return nil
}

// foresee refuses a hold that could never go, or that by all that is known would
// not go before its deadline.
func (s *Scheduler) foresee(now time.Time, h *Hold) *Refusal {
	if len(h.Needs) == 0 {
		h.Needs = nothing
	}
	h.class = min(max(h.Priority, Urgent), Patient)
	soonest := beyond(now, h.Needs)
	if soonest != nil {
		return soonest
	}
	if no := s.exhausted(now, h); no != nil {
		return no
	}
	for _, needs := range h.Needs {
		if tooSmall(now, needs) != nil {
			continue
		}
		slot, at := s.foreseeOne(now, h, needs)
		if slot == nil || h.Deadline.IsZero() || !at.After(h.Deadline) {
			return nil
		}
		if soonest == nil || at.Before(soonest.RetryAt) {
			soonest = &Refusal{Reason: slot.tooLong(now), Limit: slot.label(now), RetryAt: at}
		}
	}
	return soonest
}

// foreseeOne is when a hold that is not in the queue yet would go by one
// alternative, and which slot keeps it until then.
func (s *Scheduler) foreseeOne(now time.Time, h *Hold, needs []Need) (keeps *Slot, at time.Time) {
	at = now
	if h.Deadline.IsZero() {
		return nil, at
	}
	if h.Deadline.Before(now.Add(leastAnswer)) {
		if _, _, asks := missing(now, needs); asks {
			return nil, at // it is known in time
		}
	}
	for _, n := range needs {
		slot := n.Slot
		ahead := int64(0)
		for p := range h.class + 1 {
			ahead += slot.queued[p]
		}
		t := slot.eta(now, ahead+n.N)
		if t.After(h.Deadline) && ahead > 0 {
			t = slot.eta(now, int64(float64(ahead)*s.fairly(h))+n.N)
		}
		if t.IsZero() { // not before it could alone
			if alone := slot.when(now, n.N); alone.Sub(now) <= far && !slot.asking(now, alone, n.N) {
				t = alone
			}
		}
		if t.After(at) {
			keeps, at = slot, t
		}
	}
	return keeps, at
}

// fairly is the part of what waits that goes before a new hold of a client: of
// others no more than their share while its own are served.
func (s *Scheduler) fairly(h *Hold) float64 {
	own, total, before := float64(h.cost()), 0.0, 0.0
	if c := s.clients[h.Client]; c != nil {
		own += float64(c.cost)
		before = float64(c.cost)
	}
	for name, c := range s.clients {
		total += float64(c.cost)
		if name != h.Client {
			before += min(float64(c.cost), own*c.share/h.weight())
		}
	}
	if total == 0 {
		return 0
	}
	return min(before/total, 1)
}
