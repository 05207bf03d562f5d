package queue

import (
	"cmp"
	"time"
)

// OnCool is told of each cooldown that a permit begins or makes longer, so that
// others hear of it. It is called without a lock, by whoever has the permit, so it
// may call the gate. Set it before the gate is used.
func (g *Gate) OnCool(tell func(site string, at Scope, until time.Time, why string)) { g.onCool = tell }

// cooled tells of a cooldown, after the lock was given back.
func (g *Gate) cooled(site string, at Scope, until time.Time, why string) {
	if g.onCool != nil {
		g.onCool(site, at, until, why)
	}
}

// Cool keeps everything of a scope from being sent before until: a cooldown that
// somebody else has met, or that was there before a restart. The site does not need
// to be known, nor the limit. It never makes one shorter, and counts as no refusal of
// its own where one is there. False says that it changes nothing.
func (g *Gate) Cool(name string, at Scope, until time.Time, why string) bool {
	if !until.After(time.Now()) {
		return false
	}
	s := g.lock(name)
	defer s.mu.Unlock()
	slot := s.place(at)
	if slot == nil || !until.After(slot.cool) {
		return false
	}
	now := time.Now()
	slot.recovered(now)
	row, cooling := slot.row(nil), slot.cool.After(now)
	if cooling {
		row = max(slot.ramp.row, 0) // it is the same one
	}
	s.sched.Cool(slot, until, why)
	slot.ramp.row = row
	s.step(now)
	return true
}

// place is the slot of a scope, a new one if need be, or nil if there are as many as
// there may be.
func (s *site) place(at Scope) *Slot {
	if at == (Scope{}) {
		return s.all
	}
	if !isShort(at.Key) {
		at.Key = short(at.Key)
	}
	if e := s.entry(at); e != nil {
		return e.slot
	}
	if len(s.slots) >= s.mostSlots() {
		return nil
	}
	l := Limit{Name: at.Limit}
	e := &entry{slot: s.sched.Slot(l.label(at.Key), nil, nil), own: true, bare: true}
	e.slot.title = at.Limit
	s.keep(&l, at, e)
	return e.slot
}

// Cooldowns visits all that cools now, to be remembered with Gate.Cool. It locks one
// site after the other and calls visit under the lock: that only copies what it wants
// to know, and never calls the gate or a permit.
func (g *Gate) Cooldowns(visit func(site string, at Scope, until time.Time, why string)) {
	g.everywhere(func(s *site) {
		now := time.Now()
		see := func(slot *Slot, at Scope) {
			if slot.cool.After(now) {
				visit(s.name, at, slot.cool, slot.coolWhy)
			}
		}
		see(s.all, Scope{})
		for at, e := range s.slots {
			see(e.slot, at)
		}
	}, func(s *storedSite) { s.cooldowns(time.Now(), g.began, visit) })
}

// WarmAll ends the cooldowns of a scope at all sites, as of a token that may be used
// again. It leaves a slot alone that a key shares with others: they may have to wait.
func (g *Gate) WarmAll(at Scope) {
	g.unstore(at)
	g.each(func(s *site) {
		if own, _ := s.find(at); own != nil {
			s.sched.Warm(own)
			s.step(time.Now())
		}
	})
}

// CoolAll keeps everything of a scope from being sent before until, at all sites that
// know it, as of a token that one of them does not accept.
func (g *Gate) CoolAll(at Scope, until time.Time, why string) {
	g.unstore(at)
	g.each(func(s *site) {
		if own, _ := s.find(at); own != nil {
			now := time.Now()
			own.recovered(now)
			s.sched.Cool(own, until, why)
			s.step(now)
		}
	})
}

// about is the slot of a scope that is among the needs of a permit. A scope that is
// not, since its limits have changed, would cool what nobody waits for: then it is
// the whole site, unless the permit still has other keys of that limit, as when one
// of its tokens is gone.
func (s *site) about(p *Permit, needs [][]Need, at Scope) *Slot {
	own, shared := s.find(at)
	for _, alternative := range needs {
		for _, n := range alternative {
			if n.Slot == own || n.Slot == shared {
				return n.Slot
			}
		}
	}
	if slot := cmp.Or(own, shared); slot != nil && at.Key != "" {
		for _, alternative := range p.request.Limits {
			for i := range alternative {
				if alternative[i].Name == at.Limit {
					return slot
				}
			}
		}
	}
	return s.all
}

// of is the scope by which others find a slot that was looked up for a scope.
func (s *site) of(slot *Slot, at Scope) Scope {
	if slot == s.all {
		return Scope{}
	}
	return Scope{at.Limit, short(at.Key)}
}

// find is the slot of a scope, and the one that it shares if it has come late. A
// nil one is that of nobody.
func (s *site) find(at Scope) (own, shared *Slot) {
	if at == (Scope{}) {
		return s.all, nil
	}
	if e := s.slots[Scope{at.Limit, short(at.Key)}]; e != nil {
		own = e.slot
	}
	if e := s.rest[at.Limit]; e != nil && at.Key != "" {
		shared = e.slot
	}
	return own, shared
}
