package queue

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// resourceFor is the resource of a limit for a request; it is made or changed if need be.
func (s *registry) resourceFor(now time.Time, l *Limit, r *Request) (*resource, error) {
	at := l.scope(r)
	spec, made := l.arithmetic()
	e := s.entry(at)
	if e != nil && e.made == made && !e.onlyCools && (e.spec == spec || e.spec != nil && spec != nil && *e.spec == *spec) {
		e.spec = spec // is found to be the same at once the next time
		if made && e.resource.title != l.title() {
			s.rename(e, l, at.Key) // more is known of it now
		}
		return e.resource, nil
	}
	m, fresh, err := l.meter()
	if err != nil {
		return nil, err
	}
	switch {
	case e == nil:
		e = &limitResource{resource: s.sched.newResource(l.label(at.Key), nil, nil), perKey: l.By != byAll}
		e.resource.title = l.title()
		at = s.remember(l, at, e)
		m, external := l.externalMeter(s.name, at, m)
		e.resource.setMeter(now, m, fresh, external)
	case e.onlyCools: // nothing was taken from it yet
		e.onlyCools, e.perKey = false, l.By != byAll
		s.rename(e, l, at.Key)
		m, external := l.externalMeter(s.name, at, m)
		e.resource.setMeter(now, m, fresh, external)
		e.resource.resume(now, made)
	default:
		if err := s.change(now, e, l, at, m, fresh); err != nil {
			return nil, err
		}
	}
	e.spec, e.subject, e.made = spec, l.Subject, made
	return e.resource, nil
}

// change gives the resource of a limit that has another arithmetic now its meter.
func (s *registry) change(now time.Time, e *limitResource, l *Limit, at Scope, m limit.Meter, fresh func() limit.Meter) error {
	spec, _ := l.arithmetic()
	if e == s.overflow[l.Name] {
		at.Key = overflowKey
	}
	changing, can := e.resource.meter.(Changing)
	if can && e.resource.external && l.Source != nil && spec != nil && changing.Change(now, *spec, m) {
		e.resource.fresh, e.resource.pace = fresh, pace{}
		e.resource.markDirty()
	} else {
		moved := e.spec != nil && spec != nil && e.spec.As == spec.As && !e.resource.external
		if moved {
			var err error
			if m, err = limit.Move(now, e.resource.meter, *spec); err != nil {
				return fmt.Errorf("the limit %q: %w", l.Name, err)
			}
		}
		m, external := l.externalMeter(s.name, at, m)
		e.resource.changeMeter(now, m, fresh, moved)
		e.resource.setExternal(external)
	}
	s.rename(e, l, at.Key)
	s.forgetPatterns() // others may know it by the limits from before
	return nil
}

// rename gives the resource of a limit the limit's name.
func (s *registry) rename(e *limitResource, l *Limit, key string) {
	if e == s.overflow[l.Name] {
		key = overflowKey
	}
	e.resource.setName(l.label(key), l.title())
}

// externalMeter is the meter that a limit's resource has in place of the one that was made for it,
// and whether Gate.UpdateExternal may change it.
func (l *Limit) externalMeter(site string, at Scope, m limit.Meter) (limit.Meter, bool) {
	switch {
	case l.Source == nil:
		return m, false
	case l.Spec == nil:
		if meter := l.Source.External(site, at, limit.Spec{}, m); meter != nil {
			return meter, false
		}
		return m, false
	}
	if meter := l.Source.External(site, at, *l.Spec, m); meter != nil {
		return meter, true
	}
	return m, false
}
