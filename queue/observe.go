package queue

import (
	"slices"
	"time"
)

// Force grants a hold whether or not it may go, and tells what would have kept it. It
// takes what is there to take: what would have waited takes nothing, so that the limits
// stand as if it were still waiting. A store that is asked what is left is not waited
// for, and what it counts is taken nevertheless.
func (s *Scheduler) Force(now time.Time, h *Hold) *Keeps {
	if s.Try(now, h) {
		return nil
	}
	s.stamp(now, h)
	s.ready = s.ready[:0]
	for i, needs := range h.Needs {
		if slot, _, _ := missing(now, needs); slot == nil {
			s.ready = append(s.ready, i)
		}
	}
	if len(s.ready) > 0 {
		s.take(now, h, s.pick(h))
		return nil
	}
	k, slot := s.keeper(now, h)
	if slot != nil && k.Until.After(now) {
		slot.paying().observed += k.Until.Sub(now).Seconds()
	}
	h.choice, h.taken, h.late, h.state, h.forced = int32(s.least(now, h)), now, 0, granted, true
	s.granted++
	for _, n := range h.Needs[h.choice] {
		n.Slot.users++
	}
	return &k
}

// least is the alternative for a hold that may go by none: one where nothing cools,
// if there is any.
func (s *Scheduler) least(now time.Time, h *Hold) int {
	s.ready = s.ready[:0]
	for i, needs := range h.Needs {
		if !slices.ContainsFunc(needs, func(n Need) bool { return n.Slot.cool.After(now) }) {
			s.ready = append(s.ready, i)
		}
	}
	if len(s.ready) == 0 {
		return 0
	}
	return s.pick(h)
}

// Observed is how long requests that were only observed would have waited for a limit,
// as Blocked is for those that did.
func (g *Gate) Observed() []Blocked {
	var list []Blocked
	g.each(func(s *site) {
		for name, t := range s.sched.tolls {
			if t.observed > 0 {
				list = append(list, Blocked{s.name, name, t.observed})
			}
		}
	})
	return list
}
