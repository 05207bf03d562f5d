package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Teaching is what an answer says of a limit, which nobody may have needed before.
type Teaching struct {
	Limit Limit // with Key
	Tell  func(now time.Time, m limit.Meter)
}

// Teach lets the meters of limits hear what only their maker understands, and lets go
// what may go by it. Those that the site does not have yet are made. Tell is called
// under the site's lock: it never waits and never calls the gate or a permit.
func (p *Permit) Teach(list []Teaching) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range list {
		slot, err := s.slot(now, &list[i].Limit, &p.request)
		if err != nil {
			continue
		}
		s.sched.Tell(now, slot, list[i].Tell)
	}
	s.step(now)
}
