package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// slowStartEnd is the number of requests that may be in flight when a slow start is over.
	slowStartEnd = 1024
	// quiet is the time without grants and answers after which a slow start is over.
	quiet = time.Minute
	// probeWait is the time a slow start waits for the answers to its requests before it
	// allows another request.
	probeWait = 15 * time.Second
)

// Quarantine is the reason of the cooldown of a credential that a site has denied.
const Quarantine = "quarantine"

// cooldown blocks a resource until a time. After that, requests go in a slow start.
type cooldown struct {
	slowStart *slowStart // usually nil
	until     time.Time
	reason    string // what caused it, such as "Retry-After"
}

// slowStart bounds the requests in flight after a cooldown, because the site may still refuse.
// At first one request may be in flight, and each success allows one more, so that the number
// doubles with each round trip.
type slowStart struct {
	after     string    // what caused the cooldown
	since     uint64    // number of the last grant before the cooldown
	allowed   int       // how many requests may be in flight
	inFlight  int       // requests granted since that are not answered
	cooldowns int       // number of cooldowns before this one without a success between; -1: it had a success
	latest    time.Time // of the last grant; the end of the cooldown before the first
	ends      time.Time // when it is over, if nothing happens until then
}

// copy returns a copy of a cooldown in which all requests of the slow start are answered.
func (c *cooldown) copy() cooldown {
	copied := *c
	if c.slowStart != nil {
		slow := *c.slowStart
		slow.since, slow.inFlight = 0, 0
		copied.slowStart = &slow
	}
	return copied
}

// awaitsAnswer tells whether the resource has to wait for an answer of its site.
func (c *cooldown) awaitsAnswer(now time.Time) bool {
	r := c.slowStart
	return r != nil && r.inFlight >= r.allowed && now.Before(r.latest.Add(probeWait))
}

// denied tells whether the resource is of a credential that the site has denied.
func (r *resource) denied(now time.Time) bool {
	return r.cooldown.until.After(now) && r.cooldown.reason == Quarantine
}

// recovering tells whether the resource is in a slow start that is not over.
func (c *cooldown) recovering(now time.Time) bool {
	r := c.slowStart
	return r != nil && (r.inFlight > 0 || now.Before(r.ends))
}

// dropSlowStart forgets a slow start that is over.
func (c *cooldown) dropSlowStart(now time.Time) {
	if !c.recovering(now) {
		c.slowStart = nil
	}
}

// countGrant counts a hold that was granted, and tells whether there is a slow start.
func (c *cooldown) countGrant(now time.Time) bool {
	if c.dropSlowStart(now); c.slowStart == nil {
		return false
	}
	c.slowStart.inFlight++
	c.slowStart.latest, c.slowStart.ends = now, now.Add(quiet)
	return true
}

// cooldownsInRow returns the number of cooldowns in a row before a refusal of a grant; 0: the number
// of the grant is not known. A refusal of a request that was sent before the last cooldown
// belongs to that cooldown.
func (c *cooldown) cooldownsInRow(grant uint64) int {
	switch r := c.slowStart; {
	case r == nil:
		return 0
	case grant > 0 && grant <= r.since:
		return max(r.cooldowns, 0)
	default:
		return r.cooldowns + 1
	}
}

// why is why the resource blocks holds, if the reason is not its amount.
func (c *cooldown) why(now time.Time) string {
	switch {
	case c.until.After(now):
		return c.reason
	case !c.awaitsAnswer(now):
		return ""
	case c.slowStart.after == "":
		return "recovering"
	}
	return "recovering after " + c.slowStart.after
}

// countAnswer counts the answer to a request by the number of its grant, and tells whether
// the request was granted in the slow start.
func (c *cooldown) countAnswer(now time.Time, grant uint64, success bool) bool {
	r := c.slowStart
	if r == nil || grant <= r.since {
		return false // it was sent before the cooldown
	}
	r.inFlight--
	r.ends = now.Add(quiet)
	if success {
		r.cooldowns = -1 // the next cooldown is the first again
		if r.allowed++; r.allowed > slowStartEnd {
			c.slowStart = nil
		}
	}
	return true
}

// beginCooldown blocks the resource until a time, and begins a slow start after that. It
// changes nothing and returns false if the resource cools for as long already. grant is the
// number of the grant that the site refused; 0: not known.
func (r *resource) beginCooldown(until time.Time, why string, grant uint64) bool {
	if !until.After(r.cooldown.until) {
		return false
	}
	row := r.cooldown.cooldownsInRow(grant)
	r.cooldown.until, r.cooldown.reason = until, why
	r.cooldown.slowStart = &slowStart{after: why, since: r.agenda.grants, allowed: 1, latest: until, ends: until.Add(quiet), cooldowns: row}
	r.markDirty()
	return true
}

// endCooldown ends a cooldown and its slow start.
func (r *resource) endCooldown() {
	r.cooldown = cooldown{}
	r.markDirty()
}

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
	res := s.registry.resourceAt(at)
	if res == nil || !until.After(res.cooldown.until) {
		return false
	}
	now := g.clock.Now()
	res.cooldown.dropSlowStart(now)
	row, cooling := res.cooldown.cooldownsInRow(0), res.cooldown.until.After(now)
	if cooling {
		row = max(res.cooldown.slowStart.cooldowns, 0) // it is the same one
	}
	res.beginCooldown(until, why, 0)
	res.cooldown.slowStart.cooldowns = row
	s.step(now)
	return true
}

// VisitCooldowns is VisitResources for all scopes that cool now, for a later call of Gate.Cool.
func (g *Gate) VisitCooldowns(visit func(site string, at Scope, until time.Time, why string)) {
	g.VisitResources(func(_ time.Time, at ResourceInfo) {
		if !at.Cooling.IsZero() && !at.shared {
			visit(at.Site, at.At, at.Cooling, at.why)
		}
	})
}

// EndCooldowns ends the cooldowns of a scope at all sites, such as those of a token that may
// be used again. A resource that several keys share keeps its cooldown: the other keys may
// have to wait.
func (g *Gate) EndCooldowns(at Scope) {
	g.changeAll(at, func(_ time.Time, r *resource) { r.endCooldown() })
}

// EndPauses ends the cooldowns of a site for which ends is true by their reason, and the delay of the request that would be
// tried again first. Slow starts stay, so that one request goes. ends may change the meter, and never calls the gate.
func (g *Gate) EndPauses(name string, ends func(now time.Time, why string, m limit.Meter) bool) {
	g.change(name, func(s *site, now time.Time) {
		end := func(res *resource) {
			if ends(now, res.cooldown.reason, res.meter) && res.cooldown.until.After(now) {
				res.cooldown.until = now
			}
			res.markDirty()
		}
		end(s.registry.whole)
		for _, e := range s.registry.byScope {
			end(e.resource)
		}
		if !s.sched.delayed.Empty() {
			s.sched.delayed.Top().later = now
		}
	})
}

// CoolAll blocks a scope until a time at all sites that know the scope, such as the scope of a
// token that a site does not accept.
func (g *Gate) CoolAll(at Scope, until time.Time, why string) {
	g.changeAll(at, func(now time.Time, r *resource) {
		r.cooldown.dropSlowStart(now)
		r.beginCooldown(until, why, 0)
	})
}

// changeAll changes the resource of a scope at all sites that have one, and loads the stored ones.
func (g *Gate) changeAll(at Scope, change func(now time.Time, r *resource)) {
	bound := Scope{at.Limit, boundKey(at.Key)}
	g.everywhere(func(*site, time.Time) {}, func(item *storedSite) {
		if slices.ContainsFunc(item.resources, func(r storedResource) bool { return r.at() == bound }) {
			g.lock(item.name).mu.Unlock()
		}
	})
	g.each(func(s *site, now time.Time) {
		if resource, _ := s.registry.find(at); resource != nil {
			change(now, resource)
			s.step(now)
		}
	})
}
