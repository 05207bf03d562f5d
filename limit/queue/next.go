package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
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
	if len(s.agenda.demanding) > 0 {
		s.agenda.tellDemand(now)
	}
	return s.decisions
}

// run is next without the demands. It leaves the answer in decisions.
func (s *scheduler) run(now time.Time) {
	s.setClock(now)
	s.decisions.clear()
	if len(s.byteQueue.byteRequests)+len(s.byteQueue.blockedResources) > 0 {
		s.decisions.bytes = s.byteQueue.grantBytes(now, s.decisions.bytes)
	}
	if s.held == 0 && len(s.agenda.dirty) == 0 { // the usual case
		s.decisions.again = s.byteQueue.recheckAt
		if len(s.agenda.spareWaitlists) > 1 {
			s.agenda.spareWaitlists = []*waitlist{s.agenda.spareWaitlists[0]} // long queues leave nothing behind
		}
		return
	}
	for !s.delayed.Empty() && !s.delayed.Top().later.After(now) {
		h := s.delayed.Top()
		s.leave(h)
		s.enter(h)
	}
	for !s.agenda.wakes.Empty() && !s.agenda.wakes.Top().wake.After(now) {
		res := s.agenda.wakes.Top()
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
		c := s.agenda.firstDirty(now, s.aging)
		if c.group == nil {
			return
		}
		s.tryFirst(now, c)
	}
}

// nextAt returns the time at which time alone changes something.
func (s *scheduler) nextAt() time.Time {
	next := s.byteQueue.recheckAt
	if !s.delayed.Empty() {
		next = status.Earlier(next, s.delayed.Top().later)
	}
	if !s.agenda.wakes.Empty() {
		next = status.Earlier(next, s.agenda.wakes.Top().wake)
	}
	if !s.ends.Empty() {
		next = status.Earlier(next, s.ends.Top().ends())
	}
	return next
}

// tryFirst grants the first hold of a group or finds out what blocks it.
func (s *scheduler) tryFirst(now time.Time, c candidate) {
	g, h := c.group, c.hold()
	if s.live != nil && !s.live(h) {
		s.cancel(now, h)
		return
	}
	g.stopWaiting()
	s.look(now, h, g.choices)
	switch {
	case len(s.ready) > 0:
		s.grant(now, h)
	case !slices.ContainsFunc(s.blocks, func(b block) bool { return b.behind || b.at.Sub(now) <= far }) && neverFits(now, h.needs) != nil: // its limit has become smaller
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
		s.agenda.open.wait(g)
		s.agenda.open.markDirty()
	}
}

// look finds the alternatives of a hold that are ready, only the first in order if it has choices, and
// what blocks the others. The hold is the first of a group that is on no waitlist, or has just come.
func (s *scheduler) look(now time.Time, h *hold, c *choices) {
	s.ready, s.blocks = s.ready[:0], s.blocks[:0]
	if c != nil {
		if b := blockOf(now, s.aging, h, c.common); b.resource != nil {
			s.blocks = append(s.blocks, b)
			return
		}
		switch i, sure := c.choose(now, s, h); {
		case i >= 0:
			h.order.Chosen(i)
			s.ready = append(s.ready, i)
			return
		case sure:
			s.blocks = c.blocks(now, s.blocks)
			return
		}
	}
	for i, needs := range h.needs {
		if b := blockOf(now, s.aging, h, needs); b.resource != nil {
			s.blocks = append(s.blocks, b)
			continue
		}
		s.ready = append(s.ready, i)
		if h.order == nil {
			return
		}
	}
}

// wait puts a group on the waitlists of the resources that block its first hold.
func (s *scheduler) wait(now time.Time, g *group, h *hold) {
	g.countBlocked(s.now, s.blocks.soonest())
	for _, b := range s.blocks {
		b.waitsAt().wait(g)
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
		b.scheduleWake(now, s.aging, g)
	}
}

// pick chooses among the alternatives that are ready.
func (s *scheduler) pick(now time.Time, h *hold) int {
	if h.order == nil || len(s.ready) < 2 {
		return s.ready[0]
	}
	first, least := -1, position{}
	for _, i := range s.ready {
		if at := positionOf(now, h.order, i); first < 0 || slices.Compare(at[:], least[:]) < 0 {
			first, least = i, at
		}
	}
	h.order.Chosen(first)
	return first
}

// position orders alternatives: by the class of their rank, then those that do not rest, then by rank.
type position [6]uint64

func positionOf(now time.Time, order Ranking, i int) (at position) {
	rank := order.Rank(i)
	at[0] = rank[0] >> 62
	if order.Rests(i).After(now) {
		at[1] = 1
	}
	copy(at[2:], rank[:])
	return at
}

// grant grants the first hold of a group, and adds its cost to what its client has had.
func (s *scheduler) grant(now time.Time, h *hold) {
	choice := s.pick(now, h)
	s.leave(h)
	s.uncountWaiting(h)
	s.take(now, h, choice)
	c := h.client
	s.clients.served = max(s.clients.served, c.served)
	h.grant.charge = float64(h.fairCost()) / h.fairWeight()
	c.setServed(s.clients.served + h.grant.charge)
	s.decisions.granted = append(s.decisions.granted, h)
}

// take takes all the needs of an alternative at once.
func (s *scheduler) take(now time.Time, h *hold, choice int) {
	s.agenda.grants++
	h.state, h.grant = stateGranted, grant{number: s.agenda.grants, choice: int32(choice), taken: now}
	for _, n := range h.needs[choice] {
		n.resource.take(now, n.n) // makes nobody's wait shorter: there is nothing to look at
		h.grant.probes = n.resource.cooldown.countGrant(now) || h.grant.probes
	}
	s.granted++
}

// drop removes a hold that will not be granted.
func (s *scheduler) drop(h *hold, r *Refusal) {
	s.leave(h)
	s.uncountWaiting(h)
	s.clients.tidy(h.client)
	h.state, h.refusal = stateOutside, r
}

// refuse is drop, as a decision.
func (s *scheduler) refuse(h *hold, r *Refusal) {
	s.drop(h, r)
	s.decisions.refused = append(s.decisions.refused, h)
}

// expire refuses the holds whose deadline is over. A hold that waits for nothing but the
// answer of a store has leastAnswer more.
func (s *scheduler) expire(now time.Time) {
	for !s.ends.Empty() && !s.ends.Top().ends().After(now) {
		h := s.ends.Top()
		if by := h.entered.Add(leastAnswer); h.answerIn == 0 && by.After(now) && h.asks(now) {
			h.answerIn = by.Sub(h.added)
			s.ends.Put(h)
			continue
		}
		s.refuseLate(now, h)
	}
}

// refuseLate refuses a hold whose deadline is over, unless nothing keeps it but limits
// of which nothing is known.
func (s *scheduler) refuseLate(now time.Time, h *hold) {
	if h.state == stateDelayed {
		s.refuse(h, &Refusal{Reason: TooLong, Limit: retryLimit, RetryAt: h.later})
		return
	}
	s.ready, s.blocks = s.ready[:0], s.blocks[:0]
	every := allDenied(now, h.needs)
	for i, needs := range h.needs {
		known := slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return n.resource.unknown(now, n.n) })
		if b := blockOf(now, s.aging, h, known); b.resource == nil {
			s.ready = append(s.ready, i)
		} else if every || !denied(now, needs) {
			s.blocks = append(s.blocks, b)
		}
	}
	if len(s.ready) > 0 {
		s.grant(now, h)
		return
	}
	b := s.blocks.soonest()
	k := b.describe(now)
	s.refuse(h, &Refusal{Reason: b.resource.tooLong(now), Limit: k.String(), RetryAt: k.Until})
}

// tryAtOnce grants a hold at once if no other hold waits for anything that it needs, and
// tells whether it did. It is add and next for the usual case.
func (s *scheduler) tryAtOnce(now time.Time, h *hold) bool {
	if h.state != stateOutside || len(s.agenda.dirty) > 0 {
		return false
	}
	if first := s.nextAt(); !first.IsZero() && !first.After(now) {
		return false // something else is due first
	}
	c := s.choices(h)
	if c != nil && c.group != nil {
		return false // those that wait for the same come first
	}
	s.look(now, h, c)
	if len(s.ready) == 0 {
		return false
	}
	s.stamp(now, h)
	s.take(now, h, s.pick(now, h))
	return true
}

// choices are those of a hold, nil if all alternatives have to be looked at.
func (s *scheduler) choices(h *hold) *choices {
	c := h.choices
	if c == nil || h.order == nil || len(h.needs) != len(c.needs) || &h.needs[0] != &c.needs[0] {
		return nil
	}
	key := h.order.Common()
	if key == nil {
		return nil
	}
	if c.key != key {
		if c.users > 0 {
			return nil
		}
		c.build(s, h.order, key)
	}
	if c.unordered {
		return nil
	}
	return c
}

// find finds the alternatives of a hold that are so, and tells whether there are any.
func (s *scheduler) find(h *hold, so func(needs []need) bool) bool {
	s.ready = s.ready[:0]
	for i, needs := range h.needs {
		if so(needs) {
			s.ready = append(s.ready, i)
		}
	}
	return len(s.ready) > 0
}

// force grants a hold whether or not it may go, and answers what would have blocked it. It
// takes what is available: a hold that would have waited takes nothing, so that the limits
// stand as if it still waited. It does not wait for the answer of a store, and what that
// store counts is taken nevertheless.
func (s *scheduler) force(now time.Time, h *hold) *Blocker {
	if s.tryAtOnce(now, h) {
		return nil
	}
	s.stamp(now, h)
	if s.find(h, func(needs []need) bool {
		lacks, _ := missing(now, needs)
		return !lacks
	}) {
		s.take(now, h, s.pick(now, h))
		return nil
	}
	k, res := blocker(now, h)
	if res != nil && k.Until.After(now) {
		res.blockedTime().observed += k.Until.Sub(now).Seconds()
	}
	h.state, h.grant = stateGranted, grant{choice: int32(s.least(now, h)), taken: now, forced: true}
	s.granted++
	for _, n := range h.needs[h.grant.choice] {
		n.resource.users++
	}
	return &k
}

// least is the alternative for a hold that may go by none: one where nothing cools,
// if there is any.
func (s *scheduler) least(now time.Time, h *hold) int {
	cools := func(n need) bool { return n.resource.cooldown.until.After(now) }
	if !s.find(h, func(needs []need) bool { return !slices.ContainsFunc(needs, cools) }) {
		return 0
	}
	return s.pick(now, h)
}
