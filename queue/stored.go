package queue

import (
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// mostStoredBytes is how much memory the stored sites of a shard may take, 192 MiB in
	// all: a million of sites that cool.
	mostStoredBytes = 192 << 20 / shards
	// mostStoredSlots is how many slots of a stored site may be in use. A site with more
	// stays as it is.
	mostStoredSlots = 16
	// longestState is the longest state of a meter that is stored.
	longestState = 2048
	// storedSiteBytes and the others are about what a stored site, and each of its slots,
	// take, with their place in a map.
	storedSiteBytes  = 80
	storedSlotBytes  = 48
	storedScopeBytes = 88
)

// Storable is a meter of a learned limit whose site may be stored: where there are very
// many sites, its State is kept in its place until it is Spare, or is needed again.
type Storable interface {
	limit.Meter
	Spareable
	// SpareAt is when the meter is Spare at the latest, if nothing happens before.
	SpareAt(now time.Time) time.Time
}

// storedSite is an idle site in short: what its slots keep back. It does not change, so
// that it may be read without a lock.
type storedSite struct {
	name  string
	slots []storedSlot
}

// storedSlot is a slot that cools, has cooled a moment ago or has a learned limit. Times
// are since the gate was made.
type storedSlot struct {
	cool, still time.Duration // of the cooldown and its ramp
	room, row   int32         // of the ramp; no room: there is none
	why         string
	scope       *storedScope // nil: the whole site
}

// storedScope is the limit that a storedSlot is about.
type storedScope struct {
	at    Scope
	title string
	state []byte        // of the limit's meter; nil: of a meter that has nothing to remember
	spare time.Duration // when the state is worth nothing any more
}

// at is the scope of the slot.
func (s *storedSlot) at() Scope {
	if s.scope == nil {
		return Scope{}
	}
	return s.scope.at
}

// until is when forgetting the slot changes nothing.
func (s *storedSlot) until() time.Duration {
	until := s.cool
	if s.room > 0 {
		until = max(until, s.still)
	}
	if s.scope != nil && s.scope.state != nil {
		until = max(until, s.scope.spare)
	}
	return until
}

func (s *storedSite) until() (until time.Duration) {
	for i := range s.slots {
		until = max(until, s.slots[i].until())
	}
	return until
}

// bytes is about the memory that the site takes.
func (s *storedSite) bytes() int {
	n := storedSiteBytes + len(s.name) + storedSlotBytes*len(s.slots)
	for i := range s.slots {
		if scope := s.slots[i].scope; scope != nil {
			n += storedScopeBytes + len(scope.at.Limit) + len(scope.at.Key) + len(scope.title) + len(scope.state)
		}
	}
	return n
}

// has tells whether a slot of that scope is stored.
func (s *storedSite) has(at Scope) bool {
	for i := range s.slots {
		if s.slots[i].at() == at {
			return true
		}
	}
	return false
}

// store is the site in short; nil: that would lose something. The site is locked.
func (s *site) store(now time.Time) *storedSite {
	if s.sched.waiting+s.sched.resting+s.sched.granted > 0 || len(s.rest) > 0 {
		return nil
	}
	var slots []storedSlot
	add := func(slot *Slot, at Scope, made bool) bool {
		one, needed, ok := slot.store(now, s.gate.began, made)
		if !needed || !ok {
			return ok
		}
		if at != (Scope{}) {
			if one.scope == nil {
				one.scope = &storedScope{}
			}
			one.scope.at, one.scope.title = Scope{strings.Clone(at.Limit), strings.Clone(at.Key)}, slot.title
		}
		slots = append(slots, one)
		return len(slots) <= mostStoredSlots
	}
	if !add(s.all, Scope{}, false) {
		return nil
	}
	for at, e := range s.slots {
		if !add(e.slot, at, e.made) {
			return nil
		}
	}
	return &storedSite{strings.Clone(s.name), append(make([]storedSlot, 0, len(slots)), slots...)}
}

// store is what a slot keeps back. It is not needed if that is nothing, and not ok if it
// cannot be told in short. made says that Limit.Make has made the meter.
func (s *Slot) store(now, began time.Time, made bool) (one storedSlot, needed, ok bool) {
	if s.users > 0 || s.flying > 0 || s.thirst > 0 || s.bench != nil || s.told > 0 {
		return one, false, false
	}
	if s.cool.After(now) {
		one.cool, one.why = s.cool.Sub(began), s.coolWhy
	}
	if s.recovers(now) {
		one.still, one.room, one.row, one.why = s.ramp.still.Sub(began), int32(s.ramp.room), int32(s.ramp.row), s.ramp.after
	}
	state, spare := s.pending, s.pendingUntil
	switch m, storable := s.meter.(Storable); {
	case s.meter == nil || s.meter.Idle(now):
	case storable && m.Spare(now):
	case storable && made && !s.kept:
		state, spare = m.State(), m.SpareAt(now)
		if len(state) == 0 || len(state) > longestState {
			return one, false, false
		}
	default:
		if m, ok := s.meter.(Spareable); !ok || !m.Spare(now) {
			return one, false, false
		}
	}
	if len(state) > 0 && spare.After(now) {
		one.scope = &storedScope{state: state, spare: spare.Sub(began)}
	}
	return one, one.cool > 0 || one.room > 0 || one.scope != nil, true
}

// restore brings a new site to where it was when it was stored.
func (s *site) restore(now time.Time, from *storedSite) {
	began := s.gate.began
	for i := range from.slots {
		one := &from.slots[i]
		if began.Add(one.until()).Before(now) {
			continue
		}
		slot := s.place(one.at())
		if one.scope != nil {
			l := Limit{Title: one.scope.title}
			slot.rename(l.label(one.scope.at.Key), l.Title)
			if one.scope.state != nil {
				slot.pending, slot.pendingUntil = one.scope.state, began.Add(one.scope.spare)
			}
		}
		if one.cool > 0 {
			slot.cool, slot.coolWhy = began.Add(one.cool), one.why
		}
		if one.room > 0 {
			still := began.Add(one.still)
			slot.ramp = &ramp{after: one.why, room: int(one.room), row: int(one.row), went: still.Add(-quiet), still: still}
		}
	}
}

// resume has a new meter be as it was when its site was stored.
func (s *Slot) resume(now time.Time, made bool) {
	if made && s.meter != nil && s.pending != nil {
		_ = s.meter.Restore(now, s.pending) // a state that makes no sense is as good as none
	}
	s.pending, s.pendingUntil = nil, time.Time{}
}

// stored are the stored sites of a shard.
type stored struct {
	known map[string]*storedSite // :: name → site
	bytes int                    // that they take
	most  int                    // how many the map has had
}

// add keeps a site. Where there are too many, one that counts for less long leaves.
func (m *stored) add(s *storedSite) {
	if m.known == nil {
		m.known = map[string]*storedSite{}
	}
	for m.bytes += s.bytes(); m.bytes > mostStoredBytes && len(m.known) > 0; {
		var first *storedSite
		seen := 0
		for _, one := range m.known { // of some, in no order
			if first == nil || one.until() < first.until() {
				first = one
			}
			if seen++; seen == 8 {
				break
			}
		}
		m.take(first.name)
	}
	m.known[s.name] = s
	m.most = max(m.most, len(m.known))
}

// take answers a site, nil if it is not there, and forgets it.
func (m *stored) take(name string) *storedSite {
	s := m.known[name]
	if s != nil {
		delete(m.known, name)
		m.bytes -= s.bytes()
	}
	return s
}

// tidy forgets the sites that do not count any more. A map never gives its memory back.
func (m *stored) tidy(now time.Duration) {
	for name, s := range m.known {
		if s.until() <= now {
			m.take(name)
		}
	}
	switch n := len(m.known); {
	case n == 0:
		*m = stored{}
	case n < m.most/4:
		smaller := make(map[string]*storedSite, n)
		for name, s := range m.known {
			smaller[name] = s
		}
		m.known, m.most = smaller, n
	}
}

// list are all stored sites. They are read without a lock.
func (m *stored) list() []*storedSite {
	list := make([]*storedSite, 0, len(m.known))
	for _, s := range m.known {
		list = append(list, s)
	}
	return list
}

// unstore makes the stored sites whole again that have a slot of a scope.
func (g *Gate) unstore(at Scope) {
	at.Key = short(at.Key)
	g.everywhere(func(*site) {}, func(one *storedSite) {
		if one.has(at) {
			g.lock(one.name).mu.Unlock()
		}
	})
}

// cooldowns visits what cools at the site.
func (s *storedSite) cooldowns(now, began time.Time, visit func(site string, at Scope, until time.Time, why string)) {
	for i := range s.slots {
		if one := &s.slots[i]; one.cool > now.Sub(began) {
			visit(s.name, one.at(), began.Add(one.cool), one.why)
		}
	}
}

// states visits the learned limits of the site.
func (s *storedSite) states(now, began time.Time, visit func(now time.Time, at SlotNow)) {
	for i := range s.slots {
		if one := s.slots[i].scope; one != nil && one.state != nil && one.spare > now.Sub(began) {
			visit(now, SlotNow{Site: s.name, At: one.at, Title: one.title, State: one.state})
		}
	}
}
