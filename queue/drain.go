package queue

import (
	"context"
	"time"
)

// StartDrain refuses new requests from now on, and at once those of the requests that
// wait whose turn comes surely after the end. It tells how many it has refused, and how
// many wait on.
func (g *Gate) StartDrain(end time.Time) (refused, waiting int) {
	g.drainEnd.Store(&end)
	g.draining.Store(true)
	g.each(func(s *site) {
		now := time.Now()
		refused += s.refuseAfter(now, end)
		held, _ := s.sched.Len()
		waiting += held
	})
	return refused, waiting
}

// refuseAfter refuses what cannot go before the end.
func (s *site) refuseAfter(now, end time.Time) (refused int) {
	for _, w := range s.sched.Holds(now) {
		if w.Soonest.After(end) {
			s.sched.Cancel(now, w.Hold)
			w.Hold.refusal = &Refusal{Reason: Draining}
			w.Hold.owner.wake()
			refused++
		}
	}
	s.step(now)
	return refused
}

// tooLate tells whether a hold that has come back cannot go before the gate's drain
// ends.
func (s *site) tooLate(now time.Time, h *Hold) bool {
	end := s.gate.drainEnd.Load()
	if end == nil {
		return false
	}
	w, waits := s.sched.Why(now, h)
	return waits && w.Soonest.After(*end)
}

// Drain refuses new requests and waits until those that are held or granted are
// over. When the context ends first, what is still held is refused.
func (g *Gate) Drain(ctx context.Context) error {
	g.draining.Store(true)
	var busy []chan struct{}
	g.each(func(s *site) {
		if held, granted := s.sched.Len(); held+granted > 0 {
			done := make(chan struct{})
			s.drained = append(s.drained, done)
			busy = append(busy, done)
		}
	})
	for _, done := range busy {
		select {
		case <-done:
		case <-ctx.Done():
			g.Close()
			return ctx.Err()
		}
	}
	return nil
}

// Close refuses all that waits and everything to come, what is to be sent again
// included.
func (g *Gate) Close() {
	g.draining.Store(true)
	g.over.Store(true)
	g.each(func(s *site) { s.refuseAll() })
}
