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
		if at.Sub(now) <= far {
			no.RetryAt = at
		}
		if soonest == nil || !no.RetryAt.IsZero() && (soonest.RetryAt.IsZero() || no.RetryAt.Before(soonest.RetryAt)) {
			soonest = no
		}
	}
	return soonest
}

// missing is the slot that has too little for longest, among those of which that is
// known. asks tells whether there are others, which ask whether they have enough.
func missing(now time.Time, needs []Need) (found *Slot, until time.Time, asks bool) {
	for _, n := range needs {
		switch at := n.Slot.when(now, n.N); {
		case !at.After(now):
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
