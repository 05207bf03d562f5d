package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// SlotNow is how a slot stands.
type SlotNow struct {
	Site  string
	At    Scope  // the zero one is the site; a key of "other" may be that of all who came late
	Title string // of its limit

	// Meter is one that Limit.Make has made; nil otherwise. It is good until the
	// visit is over.
	Meter limit.Meter

	// State is that of a meter which is not made yet; nil otherwise.
	State []byte

	Cooling  time.Time // zero: it does not
	Why      string    // of the cooldown, or of what follows one
	Held     int64     // units that waiting holds want of it
	InFlight int64     // units taken by what is not over
}

// Slots visits all slots whose meters Limit.Make has made, and all others that keep
// something back after a refusal. It locks one site after the other and calls visit
// under the lock, because meters are not safe without it: visit only copies what it
// wants to know, and never calls the gate or a permit.
func (g *Gate) Slots(visit func(now time.Time, at SlotNow)) {
	g.everywhere(func(s *site) {
		now := time.Now()
		see := func(slot *Slot, at Scope, made bool) {
			n := SlotNow{Site: s.name, At: at, Title: slot.title, Why: slot.why(now), InFlight: slot.flying}
			if slot.cool.After(now) {
				n.Cooling = slot.cool
			}
			if made {
				n.Meter = slot.meter
			}
			if slot.pendingUntil.After(now) {
				n.State = slot.pending
			}
			if n.Meter == nil && n.State == nil && n.Cooling.IsZero() && n.Why == "" {
				return
			}
			for _, units := range slot.queued {
				n.Held += units
			}
			visit(now, n)
		}
		see(s.all, Scope{}, false)
		for at, e := range s.slots {
			see(e.slot, at, e.made)
		}
		for name, e := range s.rest {
			see(e.slot, Scope{name, others}, e.made)
		}
	}, func(s *storedSite) { s.states(time.Now(), g.began, visit) })
}

// Limits visits all slots whose meters were made from a Spec, with what is left of
// each, in no order. The key in at is "other" for the slot that all share who came
// late. It locks one site after the other and calls visit under the lock: that only
// copies what it wants to know of the meter, and never calls the gate or a permit.
func (g *Gate) Limits(visit func(now time.Time, site string, at Scope, title string, spec *limit.Spec, left int64, m limit.Meter)) {
	g.each(func(s *site) {
		now := time.Now()
		see := func(at Scope, e *entry) {
			if e.spec != nil {
				visit(now, s.name, at, e.slot.title, e.spec, e.slot.Left(now), e.slot.meter)
			}
		}
		for at, e := range s.slots {
			see(at, e)
		}
		for name, e := range s.rest {
			see(Scope{name, others}, e)
		}
	})
}
