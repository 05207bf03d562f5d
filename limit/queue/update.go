package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// UpdateExternal calls do under the lock of a site, so that it updates the meters that
// MeterSource.External has answered, and grants what may go by that. do only touches
// meters: it never waits and never calls the gate. false says that the site is not in
// memory.
func (g *Gate) UpdateExternal(site string, do func(now time.Time)) bool {
	s := g.find(site)
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	now := s.gate.clock.Now()
	do(now)
	s.sched.recheckDeadlines = true
	s.sched.recheckExternal()
	s.step(now)
	return true
}

// Update calls do with the meter of a scope, under the lock of its site, and grants what
// may go by that. do only touches the meter: it never waits and never calls the gate.
// false says that there is no such meter.
func (g *Gate) Update(name string, at Scope, do func(now time.Time, m limit.Meter)) bool {
	s := g.find(name)
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	resource, _ := s.find(at)
	if resource == nil || resource.meter == nil {
		return false
	}
	now := s.gate.clock.Now()
	do(now, resource.meter)
	resource.markDirty()
	s.step(now)
	return true
}

// Update is what an answer says of a limit. No request may have needed the limit before.
type Update struct {
	Limit Limit // with Key
	Apply func(now time.Time, m limit.Meter)
}

// Update calls Apply with the meter of each limit of a list, and
// grants what may go by that. Meters that the site does not have yet are made. Apply is called
// under the site's lock: it never waits and never calls the gate or a permit.
func (p *Permit) Update(list []Update) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.gate.clock.Now()
	for i := range list {
		res, err := s.resourceFor(now, &list[i].Limit, &p.request)
		if err != nil {
			continue
		}
		res.updateMeter(now, list[i].Apply)
	}
	s.step(now)
}
