package queue

import "time"

// predicted are the requests that wait, in order, with when each goes. That is found out
// without the lock of the site, which is only taken to look at its limits.
func (s *site) predicted() []heldView {
	s.mu.Lock()
	now := s.gate.clock.Now()
	if held, _ := s.sched.size(); held == 0 || s.gone {
		s.mu.Unlock()
		return nil
	}
	all := s.sched.snapshot(now, nil)
	s.mu.Unlock()
	line := all.line()
	place(line)
	predict(now, line, s.locked)
	return line
}

// locked calls look under the lock of the site.
func (s *site) locked(look func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look(s.gate.clock.Now())
}

// refuseAfter refuses the requests that cannot go before the end. It finds them without
// the lock of the site; requests that have gone meanwhile are not refused.
func (s *site) refuseAfter(end time.Time) (refused int) {
	late := s.after(end)
	if len(late) == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.gate.clock.Now()
	for _, w := range late {
		if w.hold.grant == w.grant && s.sched.cancel(now, w.hold) {
			w.hold.refusal = &Refusal{Reason: Draining}
			w.hold.owner.wake()
			refused++
		}
	}
	s.step(now)
	return refused
}

// after are the requests that wait and cannot go before the end.
func (s *site) after(end time.Time) (late []heldView) {
	for _, w := range s.predicted() {
		if w.Soonest.After(end) {
			late = append(late, w)
		}
	}
	return late
}

// refuseLate refuses a request that has come back and cannot go before the gate's drain
// ends, and tells whether it did.
func (s *site) refuseLate(h *hold) bool {
	end := s.gate.drainEnd.Load()
	if end == nil {
		return false
	}
	for _, w := range s.after(*end) {
		if w.hold != h {
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		now := s.gate.clock.Now()
		canceled := h.grant == w.grant && s.sched.cancel(now, h)
		s.step(now)
		return canceled
	}
	return false
}
