package queue

import "time"

// Displace makes room in a queue that is full for a hold of a client: it takes
// out the newest of the least urgent holds of the client that has by far the
// most for its weight, and returns it. When nobody would still have as many
// without it as the client with one more, there is no room and nil is returned.
// Without this, a client that fills the queue would keep all others out of it.
func (s *Scheduler) Displace(now time.Time, name string, weight int) *Hold {
	s.tick(now)
	own := 1.0
	if c := s.clients[name]; c != nil {
		own += float64(c.holds)
	}
	own /= float64(max(weight, 1))
	var greedy *client
	for _, c := range s.clients {
		switch {
		case c.name == name || len(c.flows) == 0 || float64(c.holds-1)/c.share < own:
		case greedy == nil || float64(c.holds)/c.share > float64(greedy.holds)/greedy.share:
			greedy = c
		}
	}
	if greedy == nil {
		return nil
	}
	var last *Hold
	for _, f := range greedy.flows {
		for _, h := range f.holds.items {
			if last == nil || h.class > last.class || h.class == last.class && h.seq > last.seq {
				last = h
			}
		}
	}
	s.refuse(last, &Refusal{Reason: Full})
	s.turn.Refused = s.turn.Refused[:len(s.turn.Refused)-1] // the caller has it
	return last
}
