package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Unreserve gives back what a granted request has taken of limits that count bytes: from
// now on taps draw them as they pass.
func (s *Scheduler) Unreserve(now time.Time, h *Hold) bool {
	if h.state != granted || h.unreserved || h.forced {
		return false
	}
	for _, n := range h.Needs[h.choice] {
		if n.Of != Bytes || n.N <= 0 {
			continue
		}
		h.unreserved = true
		n.Slot.flying -= n.N
		switch {
		case n.Slot.meter == nil:
		case n.Slot.foreign(h): // it took from the meter before this one
			n.Slot.owed -= min(n.Slot.owed, n.N)
		default:
			n.Slot.meter.Give(now, h.taken, n.N)
		}
		n.Slot.stir()
	}
	return h.unreserved
}

// Unreserve says that the answer has begun to come: what was taken for its bytes goes
// back, and taps draw them as they pass.
func (p *Permit) Unreserve() {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.sched.Unreserve(now, &p.hold) {
		s.step(now)
	}
}

// Touch lets do hear of the meter of a scope, under the lock of its site, and lets go
// what may go by it. do only touches the meter: it never waits and never calls the
// gate. False says that there is no such meter.
func (g *Gate) Touch(name string, at Scope, do func(now time.Time, m limit.Meter)) bool {
	s := g.find(name)
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	own, _ := s.find(at)
	if own == nil || own.meter == nil {
		return false
	}
	now := time.Now()
	do(now, own.meter)
	own.stir()
	s.step(now)
	return true
}
