package queue

import "time"

// Plan answers the limits of a request by what is known now, and the Seen of what
// it knows. It is called under the lock of the request's site, so it only looks up
// what it answers and never calls the gate.
type Plan = func(Request) (limits [][]Limit, seen uint64)

// generation is the limits between two reloads.
type generation struct {
	number uint64
	plan   Plan
}

// Generation counts the reloads that changed limits. Whoever makes a request asks
// for it before he looks at what he makes the limits from.
func (g *Gate) Generation() uint64 { return g.latest.Load().number }

// Reload takes other bounds and other limits. plan is asked for the limits of
// every request that waits, which keeps its place, and from now on for those of
// requests that were made before: it must know the new limits already. nil leaves
// the limits. Those with a known name and another Spec keep what was spent. What is
// now larger than its limit is refused.
func (g *Gate) Reload(b Bounds, plan Plan) {
	g.bounds.Store(&b)
	for plan != nil {
		old := g.latest.Load()
		if g.latest.CompareAndSwap(old, &generation{old.number + 1, plan}) {
			break
		}
	}
	g.each(func(s *site) {
		now := time.Now()
		s.sched.options.Aging = b.Aging
		if plan != nil {
			s.forgetPatterns()
			s.replan(now, s.sched.all())
			s.retap(now)
		}
		s.step(now)
	})
}

// Replan says that more is known of a site: what waits there and has seen less gets
// the limits that the plan has for it now, at its old place, and so does what comes
// later and has seen less. The plan must know them already. A version that is not
// above all before changes nothing, and a site that is not remembered has nothing
// to change.
func (g *Gate) Replan(name string, version uint64) {
	s := g.find(name)
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	if version <= s.seen {
		return
	}
	s.seen = version
	now := time.Now()
	var old []*Hold
	for _, h := range s.sched.all() {
		if s.stale(&h.owner.request) {
			old = append(old, h)
		}
	}
	s.replan(now, old)
	s.retap(now)
	s.step(now)
}

// stale tells whether a request's limits were made by less than is known now.
func (s *site) stale(r *Request) bool {
	g := s.gate.latest.Load()
	return g.plan != nil && (g.number != r.Made || r.Seen < s.seen)
}

// renew makes a request's limits anew if they are stale.
func (s *site) renew(r *Request) {
	if s.stale(r) {
		g := s.gate.latest.Load()
		r.Limits, r.Seen = g.plan(*r)
		r.Made, r.Shared, r.Order = g.number, false, nil
	}
}

// needs are what a permit's request needs by the newest limits. The hold keeps
// those that it has.
func (s *site) needs(now time.Time, p *Permit) [][]Need {
	s.renew(&p.request)
	needs, err := s.plan(now, &p.request)
	if err != nil {
		return p.hold.Needs // what the plan says cannot be kept: it waits for what it knew
	}
	return needs
}

// replan gives holds the newest limits.
func (s *site) replan(now time.Time, holds []*Hold) {
	for _, h := range holds {
		if !s.sched.Replan(now, h, s.needs(now, h.owner)) {
			h.owner.wake()
		}
	}
}
