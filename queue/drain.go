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
	for _, s := range g.sites() {
		refused += s.refuseAfter(end)
		s.mu.Lock()
		held, _ := s.sched.Len()
		s.mu.Unlock()
		waiting += held
	}
	return refused, waiting
}

// refuseAfter refuses what cannot go before the end. Who that is is found out without the
// lock of the site; who has gone meanwhile is not refused.
func (s *site) refuseAfter(end time.Time) (refused int) {
	late := s.after(end)
	if len(late) == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, w := range late {
		if w.Hold.grant == w.grant && s.sched.Cancel(now, w.Hold) {
			w.Hold.refusal = &Refusal{Reason: Draining}
			w.Hold.owner.wake()
			refused++
		}
	}
	s.step(now)
	return refused
}

// after are the requests that wait and cannot go before the end.
func (s *site) after(end time.Time) (late []Waiting) {
	for _, w := range s.predicted() {
		if w.Soonest.After(end) {
			late = append(late, w)
		}
	}
	return late
}

// refuseLate refuses a request that has come back and cannot go before the gate's drain
// ends, and tells whether it did.
func (s *site) refuseLate(p *Permit) bool {
	end := s.gate.drainEnd.Load()
	if end == nil {
		return false
	}
	for _, w := range s.after(*end) {
		if w.Hold != &p.hold {
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		canceled := p.hold.grant == w.grant && s.sched.Cancel(now, &p.hold)
		s.step(now)
		return canceled
	}
	return false
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
