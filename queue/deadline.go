package queue

import (
	"slices"
	"time"
)

// ends is when a hold stops waiting, and is refused.
func (h *Hold) ends() time.Time {
	if by := h.added.Add(h.answerIn); h.answerIn > 0 && by.After(h.Deadline) {
		return by
	}
	return h.Deadline
}

// byDeadline orders the holds that do not wait forever.
type byDeadline struct{}

func (byDeadline) before(a, b *Hold) bool { return a.ends().Before(b.ends()) }
func (byDeadline) place(h *Hold) *int32   { return &h.inDeadlines }

// expire refuses the holds that have waited for too long. One that waits for nothing
// but the answer of a store is given leastAnswer.
func (s *Scheduler) expire(now time.Time) {
	if s.answered && s.late > 0 {
		for _, h := range slices.Clone(s.deadlines.items) {
			if h.answerIn > 0 && !h.Deadline.After(now) && !s.asked(now, h) {
				s.refuseLate(now, h)
			}
		}
	}
	s.answered = false
	for !s.deadlines.empty() && !s.deadlines.top().ends().After(now) {
		h := s.deadlines.top()
		if by := h.entered.Add(leastAnswer); h.answerIn == 0 && by.After(now) && s.asked(now, h) {
			h.answerIn = by.Sub(h.added)
			s.late++
			s.deadlines.fix(h)
			continue
		}
		s.refuseLate(now, h)
	}
}

// refuseLate refuses a hold whose deadline is over, unless nothing keeps it but limits
// of which nothing is known.
func (s *Scheduler) refuseLate(now time.Time, h *Hold) {
	if h.state == waiting && s.allowed(now, h) {
		s.grant(now, h)
		return
	}
	k, slot := s.keeper(now, h)
	s.refuse(h, &Refusal{Reason: slot.tooLong(now), Limit: k.String(), RetryAt: k.Until})
}

// asked tells whether a hold waits for nothing but the answer of a store.
func (s *Scheduler) asked(now time.Time, h *Hold) bool {
	if h.state != waiting {
		return false
	}
	for _, needs := range h.Needs {
		if slot, _, asks := missing(now, needs); slot == nil && asks {
			return true
		}
	}
	return false
}
