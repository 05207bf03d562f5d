package queue

import "time"

// evict makes room in a full queue for a hold of a client: it removes the newest of the
// least urgent holds of the client with the most holds for its weight, and returns it. It
// returns nil if every other client would have fewer holds for its weight than this
// client. Without evict, a client that fills the queue would exclude all others.
func (s *scheduler) evict(now time.Time, name string, weight int) *hold {
	s.setClock(now)
	greedy := s.clients.greediest(name, weight)
	if greedy == nil {
		return nil
	}
	var last *hold
	for _, f := range greedy.queues {
		for _, h := range f.holds.items {
			if last == nil || h.priority > last.priority || h.priority == last.priority && h.seq > last.seq {
				last = h
			}
		}
	}
	s.refuse(last, &Refusal{Reason: siteFull})
	s.decisions.refused = s.decisions.refused[:len(s.decisions.refused)-1] // the caller has it
	return last
}
