package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Demanding is a meter that gets what it has from elsewhere, and wants to know how
// much to ask for.
type Demanding interface {
	// Demand says how many units wait in all because the meter has not enough; 0 is
	// that none do any more. It is called under the site's lock, so it never waits and
	// never calls the gate.
	Demand(now time.Time, units int64)
}

// Changing is a meter that Limit.Keep has answered and that can take another Spec.
type Changing interface {
	// Change takes another Spec, for which limit.New has made m, and tells whether it
	// did: if not, it is replaced.
	Change(now time.Time, spec limit.Spec, m limit.Meter) bool
}

// Remote is a meter that may be kept from what it needs.
type Remote interface {
	// Away tells whether nothing goes because what the meter is kept in is not there.
	Away(now time.Time) bool
}

// Asking is a meter that asks elsewhere what it has.
type Asking interface {
	// Asks tells whether n units cannot be taken now only because the answer is still
	// to come: they are not known to be used up.
	Asks(now time.Time, n int64) bool
}

// leastAnswer is how long an answer that a meter has asked for is waited for at least,
// however short the wait that a hold allows: before it comes, nobody knows whether the
// limit is used up.
const leastAnswer = time.Second

// kept is the meter that a limit's slot has in place of the one that was made for it,
// and whether Gate.With may change it.
func (l *Limit) kept(site string, at Scope, m limit.Meter) (limit.Meter, bool) {
	switch {
	case l.Keep == nil:
		return m, false
	case l.Make != nil:
		if own := l.Keep(site, at, limit.Spec{}, m); own != nil {
			return own, false
		}
		return m, false
	case l.Spec == nil:
		return m, false
	}
	if own := l.Keep(site, at, *l.Spec, m); own != nil {
		return own, true
	}
	return m, false
}

// With lets do touch the meters that Limit.Keep has answered for a site, under its
// lock, and lets go what may go by it. do only touches meters: it never waits and
// never calls the gate. False says that the site is not remembered.
func (g *Gate) With(site string, do func(now time.Time)) bool {
	s := g.find(site)
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	now := time.Now()
	do(now)
	s.sched.revive()
	s.step(now)
	return true
}

// equip gives a slot its meter. kept tells that Gate.With may change it.
func (s *Slot) equip(now time.Time, m limit.Meter, fresh func() limit.Meter, kept bool) {
	if s.told > 0 {
		s.told = 0
		s.demand.Demand(now, 0)
	}
	s.meter, s.fresh, s.pace, s.kept = m, fresh, pace{}, kept
	s.demand, _ = m.(Demanding)
	s.mind()
	if s.bench != nil {
		s.holds()
	}
}

// asking tells whether n units, which the slot's meter does not give before at, are
// lacking only because nobody knows yet whether they are there.
func (s *Slot) asking(now, at time.Time, n int64) bool {
	if !at.After(now) || s.cool.After(now) {
		return false
	}
	if m, ok := s.meter.(Asking); ok && s.thirst == 0 && !s.full(now) {
		return m.Asks(now, n)
	}
	return (s.demand != nil || s.thirst > 0) && at.Sub(now) > far
}

// asks tells whether what the slot is said to lack is asked of a store.
func (s *Slot) asks(now time.Time, n int64) bool {
	m, ok := s.meter.(Asking)
	return ok && m.Asks(now, n)
}

// keep says whether Gate.With may change the slot's meter.
func (s *Slot) keep(kept bool) {
	s.kept = kept
	if s.bench != nil {
		s.holds()
	}
}

// away tells whether what the slot's meter is kept in is not there.
func (s *Slot) away(now time.Time) bool {
	m, ok := s.meter.(Remote)
	return ok && m.Away(now)
}

// tooLong is why a hold is refused that would have to wait for the slot for too long.
// The slot may be nil.
func (s *Slot) tooLong(now time.Time) Reason {
	if s != nil && s.away(now) {
		return Away
	}
	return TooLong
}

// holds remembers that the slot keeps something back, if Gate.With may change that
// or its meter wants to know.
func (s *Slot) holds() {
	if !s.kept && s.demand == nil {
		return
	}
	s.mind()
	if s.listed {
		return
	}
	s.listed = true
	if all := s.s; len(all.blocking) >= max(64, 2*all.listed) {
		all.list()
	}
	s.s.blocking = append(s.s.blocking, s)
}

// revive asks for another look at all that is kept by slots which hold something
// back and which Gate.With may have changed.
func (s *Scheduler) revive() {
	s.parched, s.answered = true, true
	s.revived++
	s.list()
	for _, slot := range s.blocking {
		slot.stir()
	}
}

// list forgets those that keep no hold any more.
func (s *Scheduler) list() {
	list := s.blocking[:0]
	for _, slot := range s.blocking {
		if slot.listed = slot.bench != nil; slot.listed {
			list = append(list, slot)
		}
	}
	clear(s.blocking[len(list):])
	s.blocking, s.listed = list, len(list)
}

// mind remembers that what waits for the slot may have changed.
func (s *Slot) mind() {
	if s.demand != nil && !s.minded {
		s.minded = true
		s.s.minded = append(s.s.minded, s)
	}
}

// wanted is how much waits because of the slot.
func (s *Slot) wanted() int64 {
	n := s.thirst
	if s.bench != nil {
		for _, units := range s.queued {
			n += units
		}
	}
	return n
}

// ask tells the slot's meter how much waits for it, if that has changed.
func (s *Slot) ask(now time.Time, units int64) {
	if units != s.told {
		s.told = units
		s.demand.Demand(now, units)
	}
}

// demand tells all meters that want to know how much waits for them now.
func (s *Scheduler) demand(now time.Time) {
	for i, slot := range s.minded {
		s.minded[i], slot.minded = nil, false
		if slot.demand != nil {
			slot.ask(now, slot.wanted())
		}
	}
	s.minded = s.minded[:0]
}

// hint tells the meters that keep a hold which will not wait that somebody would
// have had it, so that the next one may find it. The next turn says how much truly
// waits.
func (s *Scheduler) hint(now time.Time, h *Hold) {
	for _, needs := range h.Needs {
		for _, n := range needs {
			if n.Slot.demand != nil && n.Slot.when(now, n.N).After(now) {
				n.Slot.hint(now, n.N)
			}
		}
	}
}

func (s *Slot) hint(now time.Time, n int64) {
	s.mind()
	s.ask(now, s.wanted()+n)
}
