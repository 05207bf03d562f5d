package queue

import "time"

// refuseNow refuses a hold that is not in the queue yet and goes now or not at all, if
// each alternative lacks something that is not about to come. What is about to come is
// the answer of a store that a meter has asked, or will ask.
func (s *Scheduler) refuseNow(now time.Time, h *Hold) *Refusal {
	var soonest *Refusal
	for _, needs := range h.Needs {
		slot, at := missing(now, h.Deadline, needs)
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

// missing is the slot that has too little for longest, among those of which nothing is
// about to come: a meter that has asked a store expects the answer before soon, or does
// not know when.
func missing(now, soon time.Time, needs []Need) (found *Slot, until time.Time) {
	for _, n := range needs {
		at := n.Slot.when(now, n.N)
		if !at.After(now) || n.Slot.asks() && (!at.After(soon) || at.Sub(now) > far) {
			continue
		}
		if found == nil || at.After(until) {
			found, until = n.Slot, at
		}
	}
	return found, until
}

// refuseWaiting refuses a hold that goes now or not at all and is still in the queue,
// unless it waits for nothing but the answer of a store.
func (s *Scheduler) refuseWaiting(now time.Time, h *Hold) *Refusal {
	if h.state != waiting {
		return nil
	}
	for _, needs := range h.Needs {
		if slot, _ := missing(now, h.Deadline, needs); slot != nil {
			continue
		}
		for _, n := range needs {
			if n.Slot.when(now, n.N).After(now) {
				return nil
			}
		}
	}
	if no := s.refuseNow(now, h); no != nil {
		return no
	}
	keeps, slot := s.keeper(now, h) // others come first
	return &Refusal{Reason: slot.tooLong(now), Limit: keeps.String(), RetryAt: keeps.Until}
}
