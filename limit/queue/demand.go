package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// leastAnswer is the least time for which a hold waits for an answer that a meter has
// asked a store for, however short its own wait: before the answer, it is not known
// whether the limit is used up.
const leastAnswer = time.Second

// UpdateExternal calls do under the lock of a site, so that it updates the meters that
// MeterSource.External has answered, and grants what may go by that. do only touches
// meters: it never waits and never calls the gate. false says that the site is not in
// memory.
func (g *Gate) UpdateExternal(name string, do func(now time.Time)) bool {
	return g.change(name, func(s *site, now time.Time) {
		do(now)
		s.sched.recheckExternal()
	})
}

// Update calls do with the meter of a scope, under the lock of its site, and grants what
// may go by that. do only touches the meter: it never waits and never calls the gate.
// false says that there is no such meter.
func (g *Gate) Update(name string, at Scope, do func(now time.Time, m limit.Meter)) (found bool) {
	g.change(name, func(s *site, now time.Time) {
		resource, _ := s.registry.find(at)
		found = resource != nil && resource.updateMeter(now, do)
	})
	return found
}

// Update is the statement of an answer about a limit. No request may have needed the limit before.
type Update struct {
	Limit Limit // with Key
	Apply func(now time.Time, m limit.Meter)
}

// Update calls Apply with the meter of each limit of a list, and
// grants what may go by that. Meters that the site does not have yet are made. Apply is called
// under the site's lock: it never waits and never calls the gate or a permit.
func (p *Permit) Update(list []Update) {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	for i := range list {
		res, err := s.registry.resourceFor(now, &list[i].Limit, &p.request)
		if err != nil {
			continue
		}
		res.updateMeter(now, list[i].Apply)
	}
	s.step(now)
}

// setMeter gives a resource its meter. external says that Gate.UpdateExternal may change it.
func (r *resource) setMeter(now time.Time, m limit.Meter, fresh func() limit.Meter, external bool) {
	if r.told > 0 {
		r.told = 0
		r.remote.Demand(now, 0)
	}
	r.meter, r.fresh, r.pace, r.external = m, fresh, pace{}, external
	r.remote, _ = m.(Remote)
	r.hold(0)
	r.noteDemand()
	for _, c := range r.choices {
		c.of.remote = c.of.remote || r.remote != nil
	}
	r.markDirty()
}

// asking tells whether n units, which the resource's meter does not give before at, are
// lacking only because nobody knows yet whether they are there.
func (r *resource) asking(now, at time.Time, n int64) bool {
	if !at.After(now) || r.cooldown.until.After(now) {
		return false
	}
	if r.remote != nil && r.waitingBytes == 0 && !r.cooldown.awaitsAnswer(now) {
		return r.remote.Asks(now, n)
	}
	return (r.remote != nil || r.waitingBytes > 0) && at.Sub(now) > far
}

// asks tells whether a store is asked for the n units that the resource lacks.
func (r *resource) asks(now time.Time, n int64) bool { return r.remote != nil && r.remote.Asks(now, n) }

// unknown tells whether the resource blocks n units only because nothing is known of its
// limit.
func (r *resource) unknown(now time.Time, n int64) bool {
	m, ok := r.meter.(Unknowing)
	return ok && r.waitingBytes == 0 && !r.cooldown.until.After(now) && !r.cooldown.awaitsAnswer(now) && m.Unknown(now, n)
}

// away tells whether the store of the resource's meter is away.
func (r *resource) away(now time.Time) bool { return r.remote != nil && r.remote.Away(now) }

// tooLong is why a hold is refused that would have to wait for the resource for too long.
// The resource may be nil.
func (r *resource) tooLong(now time.Time) Reason {
	if r != nil && r.away(now) {
		return Away
	}
	return TooLong
}

// noteDemand records that the demand for the resource may have changed.
func (r *resource) noteDemand() {
	if r.remote != nil && !r.noted {
		r.noted = true
		r.agenda.demanding = append(r.agenda.demanding, r)
	}
}

// demandNow returns the number of units that byte requests and holds wait for at the resource.
func (r *resource) demandNow() int64 {
	n := r.waitingBytes
	if r.waitlist != nil || slices.ContainsFunc(r.choices, func(c *choice) bool { return c.of.group != nil }) {
		for p := range numPriorities {
			n += r.wanted(p)
		}
	}
	return n
}

// tellDemand tells the resource's meter how much waits for it, if that has changed.
func (r *resource) tellDemand(now time.Time, units int64) {
	if units != r.told {
		r.told = units
		r.remote.Demand(now, units)
	}
}

func (r *resource) hint(now time.Time, n int64) {
	r.noteDemand()
	r.tellDemand(now, r.demandNow()+n)
}

// hint tells the meters that block a hold which will not wait how much it would have
// taken, so that the next hold may find that. The next decisions correct the demand.
func (h *hold) hint(now time.Time) {
	for _, needs := range h.needs {
		for _, n := range needs {
			if n.resource.remote != nil && n.resource.when(now, n.n).After(now) {
				n.resource.hint(now, n.n)
			}
		}
	}
}
