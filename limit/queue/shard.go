package queue

import (
	"sync"
	"time"
)

// shard is a part of the sites, so that looking up a site does not wait for the others.
type shard struct {
	mu    sync.RWMutex
	sites map[string]*site // :: name → site
	ring  []*site          // the same, to go through a few at a time
	next  int

	stored storedSites // sites that are not among them
}

// make adds a site and looks whether a few others can be forgotten. So memory follows
// the sites whose limits remember something, however many were seen.
func (sh *shard) make(g *gateState, name string) *site {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s := sh.sites[name]; s != nil {
		return s
	}
	now := g.clock.Now()
	sh.forget(now, 4, false, g.many)
	s := newSite(g, name)
	if from := sh.stored.take(name); from != nil {
		s.restore(now, from)
	}
	if sh.sites == nil {
		sh.sites = map[string]*site{}
	}
	sh.sites[name] = s
	sh.ring = append(sh.ring, s)
	return s
}

// find is a site, or what is stored of it; both are nil if it is not remembered.
func (sh *shard) find(name string) (s *site, stored *storedSite) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if s = sh.sites[name]; s == nil {
		stored = sh.stored.known[name]
	}
	return s, stored
}

// forget looks whether some of the sites can be forgotten, those whose turn it is. With
// known, sites of which something is known stay unless there are very many. What those
// keep back then is stored. The shard is locked.
func (sh *shard) forget(now time.Time, some int, known bool, most int) {
	many := len(sh.ring) > most/shards
	for range min(some, len(sh.ring)) {
		if sh.next >= len(sh.ring) {
			sh.next = 0
		}
		old := sh.ring[sh.next]
		if known && !many && old.knows() {
			sh.next++
			continue
		}
		left, rest := old.forget(now, many)
		if !left {
			sh.next++
			continue
		}
		if rest != nil {
			sh.stored.add(rest)
		}
		delete(sh.sites, old.name)
		last := len(sh.ring) - 1
		sh.ring[sh.next], sh.ring[last] = sh.ring[last], nil
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
	for _, e := range s.byScope {
		blank, mayBe := e.resource.meter.(Blank)
		if _, learned := e.resource.meter.(Spareable); learned && !(mayBe && blank.Blank()) || e.spec != nil && !e.spec.Traits().InFlight {
			return true
		}
	}
	return len(s.overflow) > 0
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

// forget marks the site as gone if nothing would change by it, or little where there are
// very many. What would change then is in the rest, which is nil without that. A site that
// is locked is in use.
func (s *site) forget(now time.Time, many bool) (left bool, rest *storedSite) {
	if !s.mu.TryLock() {
		return false, nil
	}
	defer s.mu.Unlock()
	if s.sources > 0 {
		return false, nil
	}
	if !s.sched.restsAnd((*resource).forgettable, now) && !(many && s.sched.restsAnd((*resource).expendable, now)) {
		if !many {
			return false, nil
		}
		if rest = s.store(now); rest == nil {
			return false, nil
		}
	}
	s.gone = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return true, rest
}

const (
	// manySites is how many sites are remembered before those leave as well of which
	// something is known: that none of a limit is used, or what the next answer says
	// again. Other idle sites are stored then.
	manySites = 20_000
	// tidyAtOnce is how many sites are looked at with the lock of their shard held.
	tidyAtOnce = 64
)
