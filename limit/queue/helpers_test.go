package queue

import (
	"errors"
	"time"
)

// tryAdd puts a hold in the queue. It is refused with a *Refusal when it could
// never go, or by all that is known not before its deadline.
func (s *scheduler) tryAdd(now time.Time, h *hold) error {
	if h.state != stateOutside {
		return errInUse
	}
	if len(h.needs) == 0 {
		h.needs = [][]need{nil}
	}
	if r := s.clients.estimate(now, h); r != nil {
		return r
	}
	s.add(now, h)
	return nil
}

// why says what keeps a hold, and when it may go. It looks at the whole queue:
// it is for people, not for every request.
func (s *scheduler) why(now time.Time, h *hold) (heldView, bool) {
	if h.state != stateWaiting && h.state != stateDelayed {
		return heldView{}, false
	}
	for _, w := range s.line(now) {
		if w.hold == h {
			return w, true
		}
	}
	return heldView{}, false
}

// line are all that wait, in the order in which they would go if every resource
// had enough. It takes O(n log n).
func (s *scheduler) line(now time.Time) []heldView { return s.lineWith(now, nil) }

// lineWith is as Holds, with one more that is not there, unless it is nil.
func (s *scheduler) lineWith(now time.Time, guest *hold) []heldView {
	return s.snapshot(now, guest).inOrder(func(look func(time.Time)) { look(now) })
}

var errInUse = errors.New("the hold was added before")

// Left returns the number of bytes that could be taken at once if no other byte request waited; -1 if no
// limit counts bytes.
func (t *ByteSource) Left() int64 {
	s, now := t.site.lock()
	defer s.mu.Unlock()
	left := int64(-1)
	for _, res := range t.resources {
		if res.meter == nil {
			continue
		}
		if n := res.meter.Left(now); left < 0 || n < left {
			left = n
		}
	}
	return left
}
