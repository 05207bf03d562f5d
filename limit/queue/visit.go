package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// ResourceInfo is the state of a resource.
type ResourceInfo struct {
	Site  string
	At    Scope  // zero: the whole site; the key "other" may stand for all keys without an own resource
	Title string // of its limit

	// Meter is a meter that MeterSource.NewMeter has made; nil otherwise. It may be used until
	// the visit is over.
	Meter limit.Meter

	// State is the state of a meter that is not made yet; nil otherwise.
	State []byte

	Cooling  time.Time // end of the cooldown; zero: none
	Why      string    // reason of the cooldown or of the slow start after it
	Held     int64     // units that waiting holds need
	InFlight int64     // units that requests under way have taken
}

// VisitResources visits all resources whose meters MeterSource.NewMeter has made, and all
// others that cool or are in a slow start. It locks one site after the other and calls visit
// under the lock, because meters are not safe without it: visit only copies what it
// wants to know, and never calls the gate or a permit.
func (g *Gate) VisitResources(visit func(now time.Time, at ResourceInfo)) {
	g.everywhere(func(s *site) { s.visit(visit) }, func(s *storedSite) { s.states(g.clock.Now(), g.began, visit) })
}

// VisitLoadedResources is VisitResources without the resources of stored sites, which have no
// meter and of which there may be a million.
func (g *Gate) VisitLoadedResources(visit func(now time.Time, at ResourceInfo)) {
	g.each(func(s *site) { s.visit(visit) })
}

// visit is VisitResources for a site, which is locked.
func (s *site) visit(visit func(now time.Time, at ResourceInfo)) {
	now := s.gate.clock.Now()
	see := func(res *resource, at Scope, made bool) {
		n := ResourceInfo{Site: s.name, At: at, Title: res.title, Why: res.cooldown.why(now), InFlight: res.inFlight}
		if res.cooldown.until.After(now) {
			n.Cooling = res.cooldown.until
		}
		if made {
			n.Meter = res.meter
		}
		if res.pendingUntil.After(now) {
			n.State = res.pending
		}
		if n.Meter == nil && n.State == nil && n.Cooling.IsZero() && n.Why == "" {
			return
		}
		for _, units := range res.queued {
			n.Held += units
		}
		visit(now, n)
	}
	see(s.registry.whole, Scope{}, false)
	for at, e := range s.registry.byScope {
		see(e.resource, at, e.made)
	}
	for name, e := range s.registry.overflow {
		see(e.resource, Scope{name, overflowKey}, e.made)
	}
}

// VisitLimits visits all resources whose meters were made from a Spec, with what is left of
// each, in no order. The key in at is "other" for the resource that all keys without an
// own resource share. It locks one site after the other and calls visit under the lock: visit only
// copies what it needs, and never calls the gate or a permit.
func (g *Gate) VisitLimits(visit func(now time.Time, site string, at Scope, title string, spec *limit.Spec, left int64, m limit.Meter)) {
	g.each(func(s *site) {
		now := s.gate.clock.Now()
		see := func(at Scope, e *limitResource) {
			if e.spec != nil {
				visit(now, s.name, at, e.resource.title, e.spec, e.resource.left(now), e.resource.meter)
			}
		}
		for at, e := range s.registry.byScope {
			see(at, e)
		}
		for name, e := range s.registry.overflow {
			see(Scope{name, overflowKey}, e)
		}
	})
}
