package queue

import (
	"slices"
	"time"
)

// next grants all that may go now, in order, and answers when to ask again. Call it after
// everything that changes something: add, cancel, finish, giveBack, a cooldown, another
// meter.
//
// The order between two holds only matters where they need the same resource. There the
// first hold claims what it waits for: no hold behind it takes from that resource until it
// has gone, or a costly request would never find enough. A resource that it also needs,
// but does not wait for, is left to others.
func (s *scheduler) next(now time.Time) decisions {
	s.run(now)
	if len(s.demanding) > 0 {
		s.tellDemand(now)
	}
	return s.decisions
}

// run is next without the demands. It leaves the answer in decisions.
func (s *scheduler) run(now time.Time) {
	s.setClock(now)
	s.decisions.clear()
	if len(s.byteRequests)+len(s.blockedResources) > 0 {
		s.decisions.bytes = s.grantBytes(now, s.decisions.bytes)
	}
	if s.numWaiting+s.numDelayed == 0 && len(s.dirty) == 0 { // the usual case
		s.decisions.again = s.recheckAt
		if len(s.spareWaitlists) > 1 {
			s.spareWaitlists = []*waitlist{s.spareWaitlists[0]} // long queues leave nothing behind
		}
		return
	}
	for !s.delayed.empty() && !s.delayed.top().later.After(now) {
		h := s.delayed.top()
		s.leave(h)
		s.enter(h)
	}
	for !s.wakes.empty() && !s.wakes.top().wake.After(now) {
		res := s.wakes.top()
		res.wakeAt(time.Time{})
		res.markDirty()
	}
	s.runUntilStable(now)
	s.expire(now)
	s.runUntilStable(now)
	s.decisions.again = s.nextAt()
}

// runUntilStable tries the first hold of the dirty resources until each is granted or
// known to wait.
func (s *scheduler) runUntilStable(now time.Time) {
	for {
		c := s.firstDirty(now, s.options.aging)
		if c.group == nil {
			return
		}
		s.tryFirst(now, c)
	}
}

// nextAt is when time alone changes something.
func (s *scheduler) nextAt() time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !s.recheckAt.IsZero() {
		sooner(s.recheckAt)
	}
	if !s.delayed.empty() {
		sooner(s.delayed.top().later)
	}
	if !s.wakes.empty() {
		sooner(s.wakes.top().wake)
	}
	if !s.ends.empty() {
		sooner(s.ends.top().ends())
	}
	return next
}

// tryFirst grants the first hold of a group or finds out what blocks it.
func (s *scheduler) tryFirst(now time.Time, c candidate) {
	g, h := c.group, c.hold()
	if s.options.live != nil && !s.options.live(h) {
		s.cancel(now, h)
		return
	}
	g.stopWaiting()
	s.ready, s.blocks = s.ready[:0], s.blocks[:0]
	for i, needs := range h.needs {
		b := c.block(now, s.options.aging, needs)
		if b.resource != nil {
			s.blocks = append(s.blocks, b)
			continue
		}
		s.ready = append(s.ready, i)
		if h.chooser == nil {
			break
		}
	}
	switch {
	case len(s.ready) > 0:
		s.grant(now, h)
	case s.blocks.stuck(now) && neverFits(now, h.needs) != nil: // its limit has become smaller
		s.refuse(h, neverFits(now, h.needs))
	case s.blocks.spent(now):
		s.refuse(h, s.blocks.soonest().exhausted(now))
	case s.blocks.hopeless(now, h):
		b := s.blocks.soonest()
		s.refuse(h, &Refusal{Reason: b.resource.tooLong(now), Limit: b.resource.label(now), RetryAt: b.at})
	default:
		s.wait(now, g, h)
		return
	}
	if g.size > 0 {
		s.open.wait(g)
		s.open.markDirty()
	}
}

// wait puts a group on the waitlists of the resources that block its first hold.
func (s *scheduler) wait(now time.Time, g *group, h *hold) {
	g.countBlocked(s.now, s.blocks.soonest().resource)
	for _, b := range s.blocks {
		b.resource.wait(g)
	}
	if only := s.blocks[0]; h.misses(now, only) {
		for _, n := range h.needs[0] {
			if n.resource != only.resource && n.n > 0 {
				n.resource.wait(g)
				s.blocks = append(s.blocks, block{resource: n.resource, at: only.at})
			}
		}
	}
	for _, b := range s.blocks {
		b.scheduleWake(now, s.options.aging, g)
	}
}

// pick chooses among the alternatives that are ready.
func (s *scheduler) pick(h *hold) int {
	if h.chooser != nil && len(s.ready) > 1 {
		if i := h.chooser.Choose(s.ready); i >= 0 && i < len(h.needs) {
			for _, ready := range s.ready {
				if ready == i {
					return i
				}
			}
		}
	}
	return s.ready[0]
}

// grant grants the first hold of a group, and adds its cost to what its client has had.
func (s *scheduler) grant(now time.Time, h *hold) {
	choice := s.pick(h)
	s.leave(h)
	s.uncountWaiting(h)
	s.take(now, h, choice)
	c := h.client
	s.served = max(s.served, c.served)
	h.charge = float64(h.fairCost()) / h.fairWeight()
	c.setServed(s.served + h.charge)
	s.decisions.granted = append(s.decisions.granted, h)
}

// take takes all the needs of an alternative at once.
func (s *scheduler) take(now time.Time, h *hold, choice int) {
	s.grants++
	h.choice, h.taken, h.late, h.state, h.charge, h.grant, h.probes = int32(choice), now, 0, stateGranted, 0, s.grants, false
	for _, n := range h.needs[choice] {
		n.resource.take(now, n.n) // makes nobody's wait shorter: there is nothing to look at
		h.probes = n.resource.countGrant(now) || h.probes
	}
	s.numGranted++
}

// refuse removes a hold that will not be granted.
func (s *scheduler) refuse(h *hold, r *Refusal) {
	s.leave(h)
	s.uncountWaiting(h)
	s.tidy(h.client)
	h.state, h.refusal = stateOutside, r
	s.decisions.refused = append(s.decisions.refused, h)
}

// expire refuses the holds whose deadline is over. A hold that waits for nothing but the
// answer of a store has leastAnswer more.
func (s *scheduler) expire(now time.Time) {
	if s.recheckDeadlines && s.late > 0 {
		for _, h := range slices.Clone(s.ends.items) {
			if h.answerIn > 0 && !h.deadline.After(now) && !h.asks(now) {
				s.refuseLate(now, h)
			}
		}
	}
	s.recheckDeadlines = false
	for !s.ends.empty() && !s.ends.top().ends().After(now) {
		h := s.ends.top()
		if by := h.entered.Add(leastAnswer); h.answerIn == 0 && by.After(now) && h.asks(now) {
			h.answerIn = by.Sub(h.added)
			s.late++
			s.ends.fix(h)
			continue
		}
		s.refuseLate(now, h)
	}
}

// refuseLate refuses a hold whose deadline is over, unless nothing keeps it but limits
// of which nothing is known.
func (s *scheduler) refuseLate(now time.Time, h *hold) {
	if h.state == stateWaiting && s.allowed(now, h) {
		s.grant(now, h)
		return
	}
	k, res := blocker(now, h)
	s.refuse(h, &Refusal{Reason: res.tooLong(now), Limit: k.String(), RetryAt: k.Until})
}
