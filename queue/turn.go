package queue

import "time"

// Turn is what happens now. Its slices are good until the next call of Next.
type Turn struct {
	Granted []*Hold
	Refused []*Hold // Hold.Refusal says why
	drawn   []*draw
	Again   time.Time // when to ask again if nothing else happens; zero is never
}

// Next grants all that may go now, in order, and says when to ask again. Call
// it after everything that changes something: Add, Cancel, Finish, Return, Cool,
// Observe, Change.
//
// The order between two holds only matters where they need the same slot. There
// the first one claims what it waits for: nothing behind it takes from that slot
// until it has gone, or a costly request would never find enough. A slot that it
// also needs, but that is not what it waits for, is left to others.
func (s *Scheduler) Next(now time.Time) Turn {
	s.advance(now)
	if len(s.minded) > 0 {
		s.demand(now)
	}
	return s.turn
}

// advance is Next. It leaves the answer in the scheduler.
func (s *Scheduler) advance(now time.Time) {
	s.tick(now)
	s.told()
	if len(s.draws)+len(s.thirsty) > 0 {
		s.pass(now)
	}
	if s.waiting+s.resting == 0 && len(s.hot) == 0 { // the usual case
		s.turn.Again = s.drawsAt
		if len(s.spare) > 1 {
			s.spare = []*bench{s.spare[0]} // long queues leave nothing behind
		}
		return
	}
	for !s.rests.empty() && !s.rests.top().later.After(now) {
		h := s.rests.top()
		s.leave(h)
		s.enter(h)
	}
	for !s.wakes.empty() && !s.wakes.top().wake.After(now) {
		slot := s.wakes.top()
		slot.wakeAt(time.Time{})
		slot.stir()
	}
	s.settle(now)
	s.expire(now)
	s.settle(now)
	s.turn.Again = s.nextAt()
}

// told lets go of what the last turn was about. A site where nothing happens for long
// would keep the requests of its last one.
func (s *Scheduler) told() {
	clear(s.turn.Granted)
	clear(s.turn.Refused)
	clear(s.turn.drawn)
	s.turn.Granted, s.turn.Refused, s.turn.drawn = s.turn.Granted[:0], s.turn.Refused[:0], s.turn.drawn[:0]
}

// settle looks at whoever is first somewhere until all of them are known to
// wait.
func (s *Scheduler) settle(now time.Time) {
	for {
		c := s.front(now)
		if c.lane == nil {
			return
		}
		s.consider(now, c)
	}
}

// nextAt is when time alone changes something.
func (s *Scheduler) nextAt() time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !s.drawsAt.IsZero() {
		sooner(s.drawsAt)
	}
	if !s.rests.empty() {
		sooner(s.rests.top().later)
	}
	if !s.wakes.empty() {
		sooner(s.wakes.top().wake)
	}
	if !s.deadlines.empty() {
		sooner(s.deadlines.top().ends())
	}
	return next
}

// front is the first lane of all the benches that may let somebody go.
func (s *Scheduler) front(now time.Time) candidate {
	var found candidate
	for i := 0; i < len(s.hot); {
		slot := s.hot[i]
		if slot.bench == nil || slot.bench.lanes == 0 {
			slot.settle() // puts another one at i
			continue
		}
		if c := slot.bench.best(now, s.options.Aging, nil); found.lane == nil || c.rank.before(found.rank) {
			found = c
		}
		i++
	}
	return found
}

// consider grants the first hold of a lane or finds out what it waits for.
func (s *Scheduler) consider(now time.Time, c candidate) {
	l, h := c.lane, c.hold()
	if s.options.Live != nil && !s.options.Live(h) {
		s.Cancel(now, h)
		return
	}
	l.raise()
	s.ready, s.blocks = s.ready[:0], s.blocks[:0]
	for i, needs := range h.Needs {
		b := s.blocked(now, c, needs)
		if b.slot != nil {
			s.blocks = append(s.blocks, b)
			continue
		}
		s.ready = append(s.ready, i)
		if h.Pick == nil {
			break
		}
	}
	switch {
	case len(s.ready) > 0:
		s.grant(now, h)
	case s.stuck(now) && beyond(now, h.Needs) != nil: // its limit has become smaller
		s.refuse(h, beyond(now, h.Needs))
	case s.spent(now):
		s.refuse(h, s.soonest().exhausted(now))
	case s.hopeless(now, h):
		b := s.soonest()
		s.refuse(h, &Refusal{Reason: b.slot.tooLong(now), Limit: b.slot.label(now), RetryAt: b.at})
	default:
		s.seat(now, l, h)
		return
	}
	if l.holds > 0 {
		s.open.seatLane(l)
		s.open.stir()
	}
}

// blocked is what keeps the first hold of a lane, which sits nowhere, from
// taking needs: the slot that it has to wait for longest, or one where others
// come first, or nothing.
func (s *Scheduler) blocked(now time.Time, c candidate, needs []Need) block {
	if b := lacking(now, now, needs); b.slot != nil {
		return b
	}
	for _, n := range needs {
		if on := n.Slot.bench; on != nil && on.best(now, s.options.Aging, c.lane).lane != c.lane {
			return block{slot: n.Slot, at: n.Slot.wake, behind: true}
		}
	}
	return block{}
}

// soonest is the block that ends first.
func (s *Scheduler) soonest() block {
	first := s.blocks[0]
	for _, b := range s.blocks[1:] {
		if b.at.Before(first.at) {
			first = b
		}
	}
	return first
}

// stuck tells whether time alone will let the hold go by no alternative.
func (s *Scheduler) stuck(now time.Time) bool {
	for _, b := range s.blocks {
		if b.behind || b.at.Sub(now) <= far {
			return false
		}
	}
	return true
}

// spent tells whether what keeps the hold from every alternative are limits that
// nobody waits for.
func (s *Scheduler) spent(now time.Time) bool {
	for _, b := range s.blocks {
		if !b.spent(now) {
			return false
		}
	}
	return len(s.blocks) > 0
}

// hopeless tells whether every alternative is known to come too late.
func (s *Scheduler) hopeless(now time.Time, h *Hold) bool {
	if h.Deadline.IsZero() {
		return false
	}
	for _, b := range s.blocks {
		if b.behind || b.asking || !b.at.After(h.Deadline) || b.at.Sub(now) > far {
			return false
		}
	}
	return len(s.blocks) > 0
}

// misses is how often one slot is found ready and another not until a hold may
// keep the first.
const misses = 8

// seat puts a lane on the benches of what keeps its first hold.
func (s *Scheduler) seat(now time.Time, l *lane, h *Hold) {
	s.charge(l, s.soonest().slot)
	for _, b := range s.blocks {
		b.slot.seatLane(l)
	}
	if only := s.blocks[0]; s.missed(now, h, only) {
		for _, n := range h.Needs[0] {
			if n.Slot != only.slot && n.N > 0 {
				n.Slot.seatLane(l)
				s.blocks = append(s.blocks, block{slot: n.Slot, at: only.at})
			}
		}
	}
	for _, b := range s.blocks {
		s.judge(now, b, l)
	}
}

// missed tells whether a hold may keep what is ready while it waits for the
// rest. Two meters that others empty in turns would keep a request that needs
// both forever. So one that has often found the one ready and the other not may
// hold back the first, for an eighth of the time that it has waited: that is
// never much, and one day it is enough.
func (s *Scheduler) missed(now time.Time, h *Hold, only block) bool {
	if len(h.Needs) > 1 || only.behind {
		return false
	}
	if h.bound != nil && h.bound != only.slot {
		h.missed++
	}
	h.bound = only.slot
	return h.missed >= misses && only.at.Sub(now) <= now.Sub(h.added)/8
}

// judge says of a slot, where a lane has just sat down, what is now known.
func (s *Scheduler) judge(now time.Time, b block, l *lane) {
	slot := b.slot
	first := slot.bench.best(now, s.options.Aging, nil).lane
	if first != l {
		// Where there is enough for those behind, the first is looked at again: a
		// meter's answer may come true a rounding earlier than it said.
		if first != slot.holder || b.behind {
			slot.stir()
		}
		return
	}
	next := b.at
	if next.Sub(now) > far {
		next = time.Time{}
	}
	if slot.holder == l && !slot.wake.IsZero() && (next.IsZero() || slot.wake.Before(next)) {
		next = slot.wake // another alternative of the same lane ends sooner
	}
	if m, ok := slot.meter.(Impatient); ok && next.IsZero() {
		next = m.Patience(now)
	}
	if slot.full(now) {
		if other := slot.ramp.went.Add(patience); next.IsZero() || other.Before(next) {
			next = other
		}
	}
	if ages := slot.bench.ages(now, s.options.Aging); !ages.IsZero() && (next.IsZero() || ages.Before(next)) {
		next = ages
	}
	slot.holder = l
	slot.settle()
	slot.wakeAt(next)
}

// pick chooses among the alternatives that are ready.
func (s *Scheduler) pick(h *Hold) int {
	if h.Pick != nil && len(s.ready) > 1 {
		if i := h.Pick(s.ready); i >= 0 && i < len(h.Needs) {
			for _, ready := range s.ready {
				if ready == i {
					return i
				}
			}
		}
	}
	return s.ready[0]
}

// grant lets the first hold of a lane go, and moves its client's turn.
func (s *Scheduler) grant(now time.Time, h *Hold) {
	choice := s.pick(h)
	s.leave(h)
	s.part(h)
	s.take(now, h, choice)
	c := h.client
	s.virtual = max(s.virtual, c.turn)
	h.charge = float64(h.cost()) / h.weight()
	c.pay(s.virtual + h.charge)
	s.turn.Granted = append(s.turn.Granted, h)
}

// take takes all the needs of an alternative at once.
func (s *Scheduler) take(now time.Time, h *Hold, choice int) {
	s.grants++
	h.choice, h.taken, h.late, h.state, h.charge, h.grant, h.asks = int32(choice), now, 0, granted, 0, s.grants, false
	for _, n := range h.Needs[choice] {
		n.Slot.take(now, n.N) // makes nobody's wait shorter: there is nothing to look at
		h.asks = n.Slot.depart(now) || h.asks
	}
	s.granted++
}

// refuse lets a hold go that will not be granted.
func (s *Scheduler) refuse(h *Hold, r *Refusal) {
	s.leave(h)
	s.part(h)
	s.tidy(h.client)
	h.state, h.refusal = outside, r
	s.turn.Refused = append(s.turn.Refused, h)
}
