package queue

import (
	"time"
)

// ends is when a hold that waits is refused.
func (h *hold) ends() time.Time {
	if by := h.added.Add(h.answerIn); h.answerIn > 0 && by.After(h.deadline) {
		return by
	}
	return h.deadline
}

// byDeadline orders the holds that do not wait forever.
type byDeadline struct{}

func (byDeadline) before(a, b *hold) bool { return a.ends().Before(b.ends()) }
func (byDeadline) place(h *hold) *int32   { return &h.inDeadlines }

// deadlines are the holds that do not wait forever.
type deadlines struct {
	ends             heap[*hold, byDeadline]
	late             int  // holds with answerIn
	recheckDeadlines bool // an answer that holds wait for may be known now
}
