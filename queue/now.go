package queue

import "time"

// refuseNow refuses a hold that is not in the queue yet and goes now or not at all, if
// each alternative lacks something that is known not to be there.
func (s *Scheduler) refuseNow(now time.Time, h *Hold) *Refusal {
	var soonest *Refusal
	for _, needs := range h.Needs {
		slot, at, _ := missing(now, needs)
		if slot == nil {
			return nil
		}
		no := &Refusal{Reason: slot.tooLong(now), Limit: slot.label(now)}
		if no.Reason != Away && at.Sub(now) <= far {
			no.RetryAt = at
		}
		if soonest == nil || !no.RetryAt.IsZero() && (soonest.RetryAt.IsZero() || no.RetryAt.Before(soonest.RetryAt)) {
			soonest = no
		}
	}
	return soonest
}

// unknown tells whether the slot keeps n units only because nothing is known of its
// limit.
func (s *Slot) unknown(now time.Time, n int64) bool {
	m, ok := s.meter.(Unknowing)
	return ok && s.thirst == 0 && !s.cool.After(now) && !s.full(now) && m.Unknown(now, n)
}

// allowed finds the alternatives of a hold that nothing keeps but limits of which
// nothing is known, and tells whether there are any.
func (s *Scheduler) allowed(now time.Time, h *Hold) bool {
	s.ready = s.ready[:0]
	for i, needs := range h.Needs {
		if s.allows(now, h, needs) {
			s.ready = append(s.ready, i)
		}
	}
	return len(s.ready) > 0
}

func (s *Scheduler) allows(now time.Time, h *Hold, needs []Need) bool {
	for _, n := range needs {
		if n.Slot.unknown(now, n.N) {
			continue
		}
		if n.Slot.when(now, n.N).After(now) {
			return false
		}
		if on := n.Slot.bench; on != nil && (h.lane == nil || on.best(now, s.options.Aging, h.lane).lane != h.lane) {
			return false // others come first
		}
	}
	return true
}

// tryAllowed grants a hold that is not in the queue yet and does not wait, if nothing
// keeps it but limits of which nothing is known.
func (s *Scheduler) tryAllowed(now time.Time, h *Hold) bool {
	if !s.allowed(now, h) {
		return false
	}
	s.stamp(now, h)
	s.take(now, h, s.pick(h))
	return true
}

// missing is the slot that has too little for longest, among those of which that is
// known. asks tells whether there are others, which ask whether they have enough.
func missing(now time.Time, needs []Need) (found *Slot, until time.Time, asks bool) {
	for _, n := range needs {
		switch at := n.Slot.when(now, n.N); {
		case !at.After(now), n.Slot.unknown(now, n.N):
		case n.Slot.asking(now, at, n.N):
			asks = true
		case found == nil || at.After(until):
			found, until = n.Slot, at
		}
	}
	return found, until, asks
}

// refuseWaiting refuses a hold that goes now or not at all and is still in the queue,
// unless it waits for nothing but the answer of a store.
func (s *Scheduler) refuseWaiting(now time.Time, h *Hold) *Refusal {
	if h.state != waiting || s.asked(now, h) {
		return nil
	}
	if no := s.refuseNow(now, h); no != nil {
		return no
	}
	keeps, slot := s.keeper(now, h) // others come first
	return &Refusal{Reason: slot.tooLong(now), Limit: keeps.String(), RetryAt: keeps.Until}
}
