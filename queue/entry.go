package queue

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// slot is the one of a limit for a request.
func (s *site) slot(now time.Time, l *Limit, r *Request) (*Slot, error) {
	at := l.scope(r)
	spec, made := l.arithmetic()
	e := s.entry(at)
	if e != nil && e.made == made && !e.bare && (e.spec == spec || e.spec != nil && spec != nil && *e.spec == *spec) {
		e.spec = spec // is found to be the same at once the next time
		if made && e.slot.title != l.title() {
			s.rename(e, l, at.Key) // more is known of it now
		}
		return e.slot, nil
	}
	m, fresh, err := l.meter()
	if err != nil {
		return nil, err
	}
	switch {
	case e == nil:
		e = &entry{slot: s.sched.Slot(l.label(at.Key), nil, nil), own: l.By != ByNone}
		e.slot.title = l.title()
		at = s.keep(l, at, e)
		m, kept := l.kept(s.name, at, m)
		e.slot.equip(now, m, fresh, kept)
	case e.bare: // nothing was taken from it yet
		e.bare, e.own = false, l.By != ByNone
		s.rename(e, l, at.Key)
		m, kept := l.kept(s.name, at, m)
		e.slot.equip(now, m, fresh, kept)
		e.slot.resume(now, made)
	default:
		if err := s.change(now, e, l, at, m, fresh); err != nil {
			return nil, err
		}
	}
	e.spec, e.of, e.made = spec, l.Subject, made
	return e.slot, nil
}

// change gives the slot of a limit that has another arithmetic now its meter.
func (s *site) change(now time.Time, e *entry, l *Limit, at Scope, m limit.Meter, fresh func() limit.Meter) error {
	spec, _ := l.arithmetic()
	if e == s.rest[l.Name] {
		at.Key = others
	}
	own, can := e.slot.meter.(Changing)
	if can && e.slot.kept && l.Keep != nil && spec != nil && own.Change(now, *spec, m) {
		e.slot.fresh, e.slot.pace = fresh, pace{}
		e.slot.stir()
	} else {
		moved := e.spec != nil && spec != nil && e.spec.As == spec.As && !e.slot.kept
		if moved {
			var err error
			if m, err = limit.Move(now, e.slot.meter, *spec); err != nil {
				return fmt.Errorf("the limit %q: %w", l.Name, err)
			}
		}
		m, kept := l.kept(s.name, at, m)
		s.sched.Change(now, e.slot, m, fresh, moved)
		e.slot.keep(kept)
	}
	s.rename(e, l, at.Key)
	s.forgetPatterns() // others may know it by the limits from before
	return nil
}

// rename gives the slot of a limit the limit's name.
func (s *site) rename(e *entry, l *Limit, key string) {
	if e == s.rest[l.Name] {
		key = others
	}
	e.slot.rename(l.label(key), l.title())
}
