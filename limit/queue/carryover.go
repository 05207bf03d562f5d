package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// CarryOver makes new limits begin with what was spent of the limits that they replace. It is
// called twice: before the new limits are in force, with a zero time, and when they are, with
// the time of the first call, so that what was spent of the old limits meanwhile is taken too.
// of returns the old and the new limits of a site; it is called under the lock of the site
// and never calls the gate.
func (g *Gate) CarryOver(since time.Time, of func(site string) (old, fresh []Limit)) {
	g.each(func(s *site) {
		if len(s.byScope) == 0 {
			return
		}
		old, fresh := of(s.name)
		now := g.clock.Now()
		for i := range fresh {
			if l := &fresh[i]; l.Spec != nil {
				s.succeed(now, since, old, l)
			}
		}
		if len(fresh) > 0 && !since.IsZero() {
			s.step(now)
		}
	})
}

// succeed makes the meters of one new limit begin with what was spent of the old limits.
func (s *site) succeed(now, since time.Time, old []Limit, l *Limit) {
	for key, list := range s.spent(now, old, l) {
		if len(list) == 0 {
			continue
		}
		at := Scope{l.Name, key}
		e := s.entry(at)
		if !since.IsZero() {
			if n := recently(list, now.Sub(since)); n > 0 && e != nil && e.resource.meter != nil {
				e.resource.meter.Take(now, n)
				e.resource.markDirty()
			}
			continue
		}
		m, err := limit.Carry(now, list, *l.Spec)
		_, fresh, wrong := l.meter()
		if err != nil || wrong != nil {
			continue // the next request gets the error
		}
		external := false
		if e == nil {
			e = &limitResource{resource: s.sched.newResource(l.label(key), nil, nil), perKey: l.By != byAll, spec: l.Spec, subject: l.Subject}
			e.resource.title = l.title()
			at = s.remember(l, at, e)
			m, external = l.externalMeter(s.name, at, m)
			e.resource.setMeter(now, m, fresh, external)
		} else {
			m, external = l.externalMeter(s.name, at, m)
			e.resource.changeMeter(now, m, fresh, true)
			e.resource.setExternal(external)
			e.resource.changed, e.resource.owed = now, 0
			e.spec, e.subject, e.onlyCools, e.perKey = l.Spec, l.Subject, false, l.By != byAll
		}
		clear(s.patterns)
	}
}

// spent is what was spent of the limits that a new limit replaces, by key: of the limits in
// force until now, and of limits removed earlier whose meters are still in memory.
func (s *site) spent(now time.Time, old []Limit, l *Limit) map[string][]limit.Spent {
	if l.Subject == nil {
		return nil
	}
	subjects := make(map[string]*Subject, len(old)) // :: limit's name
	for i := range old {
		subjects[old[i].Name] = old[i].Subject
	}
	var was []Predecessor
	for at, e := range s.byScope {
		of := subjects[at.Limit]
		if of == nil && at.Limit != l.Name {
			of = e.subject
		}
		if of != nil && l.Subject.relationTo(*of) != unrelated && e.resource.meter != nil {
			was = append(was, Predecessor{*of, at.Key, func(now time.Time) []limit.Spent { return limit.PastOf(now, e.resource.meter) }})
		}
	}
	return Inherit(now, *l.Subject, l.Key, was)
}
