package queue

import (
	"context"
	"time"
)

// StartDrain refuses new requests from now on, and at once those waiting requests that
// surely go after the end. It answers how many it has refused, and how many still wait.
func (g *Gate) StartDrain(end time.Time) (refused, waiting int) {
	g.drainEnd.Store(&end)
	g.draining.Store(true)
	for _, s := range g.sites() {
		refused += s.refuseAfter(end)
		s.mu.Lock()
		held, _ := s.sched.size()
		s.mu.Unlock()
		waiting += held
	}
	return refused, waiting
}

// Drain refuses new requests and waits until those that are held or granted are
// over. When the context ends first, what is still held is refused.
func (g *Gate) Drain(ctx context.Context) error {
	g.draining.Store(true)
	var busy []chan struct{}
	g.each(func(s *site) {
		if held, granted := s.sched.size(); held+granted > 0 {
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

// Close refuses all requests that wait and all to come, those that are sent again
// included.
func (g *Gate) Close() {
	g.draining.Store(true)
	g.over.Store(true)
	g.each(func(s *site) { s.refuseAll() })
}
