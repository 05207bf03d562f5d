package queue

import (
	"time"
)

// Cool blocks a scope until a time: for a cooldown that another instance has begun, or that
// began before a restart. Neither the site nor the limit needs to be
// known. Cool never makes a cooldown shorter, and does not count as another refusal in a
// row where the scope cools already. It answers false if nothing changes.
func (g *Gate) Cool(name string, at Scope, until time.Time, why string) bool {
	if !until.After(g.clock.Now()) {
		return false
	}
	s := g.lock(name)
	defer s.mu.Unlock()
	res := s.resourceAt(at)
	if res == nil || !until.After(res.coolUntil) {
		return false
	}
	now := g.clock.Now()
	res.dropSlowStart(now)
	row, cooling := res.cooldownsInRow(0), res.coolUntil.After(now)
	if cooling {
		row = max(res.slowStart.cooldowns, 0) // it is the same one
	}
	res.beginCooldown(until, why, 0)
	res.slowStart.cooldowns = row
	s.step(now)
	return true
}

// VisitCooldowns visits all scopes that cool now, for a later call of Gate.Cool. It locks one
// site after the other and calls visit under the lock: visit only copies what it needs, and
// never calls the gate or a permit.
func (g *Gate) VisitCooldowns(visit func(site string, at Scope, until time.Time, why string)) {
	g.everywhere(func(s *site) {
		now := g.clock.Now()
		see := func(res *resource, at Scope) {
			if res.coolUntil.After(now) {
				visit(s.name, at, res.coolUntil, res.coolWhy)
			}
		}
		see(s.whole, Scope{})
		for at, e := range s.byScope {
			see(e.resource, at)
		}
	}, func(s *storedSite) { s.cooldowns(g.clock.Now(), g.began, visit) })
}

// EndCooldowns ends the cooldowns of a scope at all sites, such as those of a token that may
// be used again. A resource that several keys share keeps its cooldown: the other keys may
// have to wait.
func (g *Gate) EndCooldowns(at Scope) {
	g.unstore(at)
	g.each(func(s *site) {
		if resource, _ := s.find(at); resource != nil {
			resource.endCooldown()
			s.step(g.clock.Now())
		}
	})
}

// CoolAll blocks a scope until a time at all sites that know the scope, such as the scope of a
// token that a site does not accept.
func (g *Gate) CoolAll(at Scope, until time.Time, why string) {
	g.unstore(at)
	g.each(func(s *site) {
		if resource, _ := s.find(at); resource != nil {
			now := g.clock.Now()
			resource.dropSlowStart(now)
			resource.beginCooldown(until, why, 0)
			s.step(now)
		}
	})
}

// unstore loads the stored sites that have a resource of a scope.
func (g *Gate) unstore(at Scope) {
	at.Key = boundKey(at.Key)
	g.everywhere(func(*site) {}, func(item *storedSite) {
		if item.has(at) {
			g.lock(item.name).mu.Unlock()
		}
	})
}
