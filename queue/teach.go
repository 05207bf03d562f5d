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

// Teach is Tell for limits that are made if the site does not have them yet.
func (p *Permit) Teach(list []Teaching) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range list {
		slot, err := s.slot(now, &list[i].Limit, &p.request)
		if err != nil || slot.meter == nil {
			continue
		}
		list[i].Tell(now, slot.meter)
		slot.stir()
	}
	s.step(now)
}
