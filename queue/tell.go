package queue

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Tell lets the meter of a scope hear what only its maker understands, and lets go
// what may go by it. False says that there is no such meter; see Teach. tell is
// called under the site's lock: it never waits and never calls the gate or a permit.
func (p *Permit) Tell(at Scope, tell func(now time.Time, m limit.Meter)) bool {
	p.site.mu.Lock()
	defer p.site.mu.Unlock()
	return p.site.tell(at, tell)
}

// Tell is Permit.Tell for who has no permit. A site that is not remembered has no
// meters.
func (g *Gate) Tell(site string, at Scope, tell func(now time.Time, m limit.Meter)) bool {
	s := g.find(site)
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	return s.tell(at, tell)
}

func (s *site) tell(at Scope, tell func(now time.Time, m limit.Meter)) bool {
	now := time.Now()
	slot := cmp.Or(s.find(at))
	if slot == nil || !s.sched.Tell(now, slot, tell) {
		return false
	}
	s.step(now)
	return true
}
