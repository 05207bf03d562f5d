package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// manySites is how many sites are remembered before those leave as well of which
	// something is known: that none of a limit is used, or what the next answer says
	// again. Other idle sites are stored then.
	manySites = 20_000
	// tidyAtOnce is how many sites are looked at with the lock of their shard held.
	tidyAtOnce = 64
)

// Tidy forgets the sites of which nothing is known, and where there are very many also
// others that are idle, and stores the rest. It does so in one of a number of parts of
// them: all are looked at when Tidy was called with each number from 0 to Parts-1. New
// sites do the same for a few others; Tidy is for when none come.
func (g *Gate) Tidy(now time.Time, part int) {
	sh := &g.shards[part%shards]
	sh.mu.Lock()
	rest := len(sh.ring)
	sh.hand = 0
	sh.mu.Unlock()
	for ; rest > 0; rest -= tidyAtOnce {
		sh.mu.Lock()
		sh.forget(now, min(rest, tidyAtOnce), true, g.many)
		sh.mu.Unlock()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.stored.tidy(now.Sub(g.began))
	if len(sh.ring) == 0 { // a map never gives its memory back
		sh.sites, sh.ring = nil, nil
	}
}

// Parts is how many parts Tidy has.
const Parts = shards

// forget looks whether some of the sites can be forgotten, those whose turn it is. With
// known, sites of which something is known stay unless there are very many. What those
// keep back then is stored. The shard is locked.
func (sh *shard) forget(now time.Time, some int, known bool, most int) {
	many := len(sh.ring) > most/shards
	for range min(some, len(sh.ring)) {
		if sh.hand >= len(sh.ring) {
			sh.hand = 0
		}
		old := sh.ring[sh.hand]
		if known && !many && old.knows() {
			sh.hand++
			continue
		}
		left, rest := old.forget(now, many)
		if !left {
			sh.hand++
			continue
		}
		if rest != nil {
			sh.stored.add(rest)
		}
		delete(sh.sites, old.name)
		last := len(sh.ring) - 1
		sh.ring[sh.hand], sh.ring[last] = sh.ring[last], nil
		sh.ring = sh.ring[:last]
	}
	if len(sh.ring) < cap(sh.ring)/4 && cap(sh.ring) > 64 {
		sh.shrink()
	}
}

// knows tells whether the site has a limit that is shown to the operator, or has learned
// one. A site that is locked is in use.
func (s *site) knows() bool {
	if !s.mu.TryLock() {
		return true
	}
	defer s.mu.Unlock()
	for _, e := range s.slots {
		if _, learned := e.slot.meter.(Spareable); learned || e.spec != nil && e.spec.As != limit.Concurrency {
			return true
		}
	}
	return len(s.rest) > 0
}

// shrink gives back the memory of a shard that has had many more sites.
func (sh *shard) shrink() {
	ring := make([]*site, len(sh.ring), 2*len(sh.ring))
	copy(ring, sh.ring)
	sites := make(map[string]*site, len(ring))
	for _, s := range ring {
		sites[s.name] = s
	}
	sh.ring, sh.sites = ring, sites
}

// Spare tells whether forgetting the whole site would cost little.
func (s *Scheduler) Spare(now time.Time) bool { return s.rested(now, (*Slot).spare) }

// Idle tells whether forgetting the whole site would change nothing.
func (s *Scheduler) Idle(now time.Time) bool { return s.rested(now, (*Slot).idle) }

// rested tells whether nothing waits or is in flight, and all slots are so.
func (s *Scheduler) rested(now time.Time, so func(*Slot, time.Time) bool) bool {
	if s.waiting+s.resting+s.granted > 0 {
		return false
	}
	for slot := range s.slots {
		if !so(slot, now) {
			return false
		}
	}
	return true
}

// Spareable is a meter that can tell whether forgetting it costs little, though it is not
// idle. It is asked when the gate has very many sites.
type Spareable interface {
	Spare(now time.Time) bool
}

// spare tells whether the slot is idle, or forgetting it costs little.
func (s *Slot) spare(now time.Time) bool {
	if s.users > 0 || s.cool.After(now) || s.recovers(now) || s.pendingUntil.After(now) {
		return false
	}
	m, ok := s.meter.(Spareable)
	return ok && m.Spare(now) || s.meter == nil || s.meter.Idle(now)
}
