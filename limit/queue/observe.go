package queue

import (
	"slices"
	"time"
)

// force grants a hold whether or not it may go, and answers what would have blocked it. It
// takes what is available: a hold that would have waited takes nothing, so that the limits
// stand as if it still waited. It does not wait for the answer of a store, and what that
// store counts is taken nevertheless.
func (s *scheduler) force(now time.Time, h *hold) *Blocker {
	if s.tryAtOnce(now, h) {
		return nil
	}
	s.stamp(now, h)
	s.ready = s.ready[:0]
	for i, needs := range h.needs {
		if res, _, _ := missing(now, needs); res == nil {
			s.ready = append(s.ready, i)
		}
	}
	if len(s.ready) > 0 {
		s.take(now, h, s.pick(h))
		return nil
	}
	k, res := blocker(now, h)
	if res != nil && k.Until.After(now) {
		res.blockedTime().observed += k.Until.Sub(now).Seconds()
	}
	h.choice, h.taken, h.late, h.state, h.forced = int32(s.least(now, h)), now, 0, stateGranted, true
	s.numGranted++
	for _, n := range h.needs[h.choice] {
		n.resource.users++
	}
	return &k
}

// least is the alternative for a hold that may go by none: one where nothing cools,
// if there is any.
func (s *scheduler) least(now time.Time, h *hold) int {
	s.ready = s.ready[:0]
	for i, needs := range h.needs {
		if !slices.ContainsFunc(needs, func(n need) bool { return n.resource.coolUntil.After(now) }) {
			s.ready = append(s.ready, i)
		}
	}
	if len(s.ready) == 0 {
		return 0
	}
	return s.pick(h)
}
