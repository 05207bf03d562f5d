package queue

import "time"

// tryAtOnce grants a hold at once if no other hold waits for anything that it needs, and
// tells whether it did. It is add and next for the usual case.
func (s *scheduler) tryAtOnce(now time.Time, h *hold) bool {
	if h.state != stateOutside || len(s.dirty) > 0 {
		return false
	}
	if first := s.nextAt(); !first.IsZero() && !first.After(now) {
		return false // something else is due first
	}
	if len(h.needs) == 0 {
		h.needs = noNeeds
	}
	if went, sure := s.tryChoices(now, h); sure {
		return went
	}
	s.ready = s.ready[:0]
	for i, alternative := range h.needs {
		if !free(now, alternative) {
			continue
		}
		s.ready = append(s.ready, i)
		if h.chooser == nil {
			break
		}
	}
	if len(s.ready) == 0 {
		return false
	}
	s.stamp(now, h)
	s.take(now, h, s.pick(h))
	return true
}

// choices are those of a hold, nil if all alternatives have to be looked at.
func (s *scheduler) choices(h *hold) *choices {
	c := h.choices
	if c == nil || len(s.groups) > 0 || len(h.needs) != len(c.needs) || &h.needs[0] != &c.needs[0] {
		return nil
	}
	if c.order != c.wanted {
		c.detach()
		c.build()
	}
	if c.unordered {
		return nil
	}
	return c
}

// tryChoices grants a hold at once that has very many alternatives. sure is false when
// all of them have to be looked at.
func (s *scheduler) tryChoices(now time.Time, h *hold) (went, sure bool) {
	c := s.choices(h)
	if c == nil {
		return false, false
	}
	i, sure := c.choose(now, &s.agenda)
	if i < 0 {
		return false, sure
	}
	c.order.Chosen(i)
	s.stamp(now, h)
	s.take(now, h, i)
	return true, true
}

// allowed finds the alternatives of a hold that nothing keeps but limits of which
// nothing is known, and tells whether there are any.
func (s *scheduler) allowed(now time.Time, h *hold) bool {
	s.ready = s.ready[:0]
	for i, needs := range h.needs {
		if allows(now, s.options.aging, h, needs) {
			s.ready = append(s.ready, i)
		}
	}
	return len(s.ready) > 0
}

// tryAllowed grants a hold that is not in the queue yet and does not wait, if nothing
// keeps it but limits of which nothing is known.
func (s *scheduler) tryAllowed(now time.Time, h *hold) bool {
	if !s.allowed(now, h) {
		return false
	}
	s.stamp(now, h)
	s.take(now, h, s.pick(h))
	return true
}

// refuseWaiting refuses a hold that goes now or not at all and is still in the queue,
// unless it waits for nothing but the answer of a store.
func (s *scheduler) refuseWaiting(now time.Time, h *hold) *Refusal {
	if h.state != stateWaiting || h.asks(now) {
		return nil
	}
	if refusal := refuseNow(now, h); refusal != nil {
		return refusal
	}
	keeps, res := blocker(now, h) // others come first
	return &Refusal{Reason: res.tooLong(now), Limit: keeps.String(), RetryAt: keeps.Until}
}

func allows(now time.Time, aging time.Duration, h *hold, needs []need) bool {
	for _, n := range needs {
		if n.resource.unknown(now, n.n) {
			continue
		}
		if n.resource.when(now, n.n).After(now) {
			return false
		}
		if on := n.resource.waitlist; on != nil && (h.group == nil || on.best(now, aging, h.group).group != h.group) {
			return false // others come first
		}
	}
	return true
}
