package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Unreserve gives back what a granted request has taken of limits that count bytes: from
// now on taps draw them as they pass.
func (s *Scheduler) Unreserve(now time.Time, h *Hold) bool {
	if h.state != granted || h.unreserved || h.forced {
		return false
	}
	s.unlend(h)
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

// lend has draws take what a granted request has taken of limits that count bytes, when
// they find nothing else: it is on its way, and its bytes are drawn too.
func (s *Scheduler) lend(h *Hold) bool {
	if h.state != granted || h.unreserved || h.forced || h.lent {
		return false
	}
	for _, n := range h.Needs[h.choice] {
		if n.Of == Bytes && n.N > 0 {
			h.lent = true
			s.lent = append(s.lent, h)
			s.parched = true
			return true
		}
	}
	return false
}

// unlend is for one that is over, or has nothing any more.
func (s *Scheduler) unlend(h *Hold) {
	if !h.lent {
		return
	}
	h.lent = false
	for i := range s.lent {
		if s.lent[i] == h {
			s.lent = slices.Delete(s.lent, i, i+1)
			return
		}
	}
}

// redeem is pour, which takes from those who lend if there is nothing else, one after
// the other.
func (s *Scheduler) redeem(now time.Time, slots []*Slot, n, least int64) int64 {
	for {
		granted := pour(now, slots, n, least)
		if granted > 0 || len(s.lent) == 0 {
			return granted
		}
		by, _ := lacks(now, slots, least)
		i := slices.IndexFunc(s.lent, func(h *Hold) bool { return h.takes(by) })
		if i < 0 {
			return 0
		}
		s.Unreserve(now, s.lent[i])
	}
}

// takes tells whether a granted hold has taken bytes of a slot.
func (h *Hold) takes(of *Slot) bool {
	for _, n := range h.Needs[h.choice] {
		if n.Of == Bytes && n.N > 0 && n.Slot == of {
			return true
		}
	}
	return false
}

// Lend says that the request is on its way. What was taken for its bytes is there for
// taps, whosever they are, as far as they find nothing else: or requests that were let
// go would wait for what is kept for them.
func (p *Permit) Lend() {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sched.lend(&p.hold) && len(s.sched.draws) > 0 {
		s.step(time.Now())
	}
}

// TakeLent gives back what is kept for a request that is on its way, if anything is kept
// of what the tap draws from: its connection draws for it.
func (t *Tap) TakeLent() {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed {
		return
	}
	i := slices.IndexFunc(s.sched.lent, func(h *Hold) bool { return slices.ContainsFunc(t.slots, h.takes) })
	if i < 0 {
		return
	}
	now := time.Now()
	s.sched.Unreserve(now, s.sched.lent[i])
	if len(s.sched.draws) > 0 {
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
