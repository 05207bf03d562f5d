package queue

import (
	"hash/maphash"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Explained is what a request would meet now.
type Explained struct {
	Held     int // that wait at the site
	InFlight int // that were granted and are not over

	// Place is 1 for the next, among those that need the same; ETA is zero if nobody
	// can tell, and Keeps is empty if it would go at once.
	Place int
	Keeps
	ETA   time.Time
	Never bool // it is larger than a limit

	Limits []LimitNow // that it needs, in order; the site itself only while it cools
}

// LimitNow is how one limit stands.
type LimitNow struct {
	Limit    string // as people know it
	Key      string
	Learned  bool      // nobody wrote it: Limit.Make has made its meter
	Left     int64     // -1: it has no amount
	Rate     float64   // of an adaptive limit, now, per second; 0 of others
	Next     time.Time // when the request could take from it, were it alone; zero: not known
	Asks     bool      // its store is asked what is left
	Cooling  time.Time // zero: it does not
	Why      string    // of the cooldown, or of what follows one
	Held     int       // holds that need it
	InFlight int64     // units taken by what is not over
}

// Explain tells what a request would meet now. It makes nothing and changes
// nothing: a site that is not remembered stays so. A limit that makes no sense is
// shown as one without an amount.
func (g *Gate) Explain(r Request) Explained {
	sh := &g.shards[maphash.String(g.seed, r.Site)%shards]
	for {
		s, from := sh.find(r.Site)
		if s == nil {
			s = newSite(g, r.Site) // nobody else has it
			if from != nil {
				s.restore(time.Now(), from)
			}
		}
		s.mu.Lock()
		if !s.gone {
			return s.explain(r)
		}
		s.mu.Unlock() // forgotten between the two locks
	}
}

// explain looks at the site, whose lock it gives back, and finds out without the lock when
// the request would go: many may wait there.
func (s *site) explain(r Request) Explained {
	now := time.Now()
	p := &Permit{request: r}
	s.renew(&p.request)
	h := &Hold{Client: r.Client, Weight: r.Weight, Priority: r.Priority, Cost: r.Cost}
	h.Needs = [][]Need{{{Slot: s.all}}}
	for i, alternative := range p.request.Limits {
		needs := []Need{{Slot: s.all}}
		for j := range alternative {
			l := &alternative[j]
			needs = merge(needs, l.need(s.peek(l, l.scope(&p.request)), &p.request))
		}
		h.Needs = append(h.Needs[:i], needs)
	}
	var e Explained
	e.Held, e.InFlight = s.sched.Len()
	var all *snapshot
	var refusal *Refusal
	var slots []*Slot // of e.Limits
	unenclosed(h.Needs, func() {
		all = s.sched.snapshot(now, h)
		refusal = beyond(now, h.Needs)
		slots = s.limitsNow(now, p, h, &e)
	})
	s.mu.Unlock()
	line := all.line()
	place(line)
	predict(now, line, func(look func(time.Time)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		unenclosed(h.Needs, func() { look(time.Now()) })
	})
	held := map[*Slot]int{}
	for _, w := range line {
		if w.Hold == h {
			e.Place, e.Keeps, e.ETA = w.Place, w.Keeps, w.ETA
			continue
		}
		for slot := range slotsOf(w.needs) {
			held[slot]++
		}
	}
	for i, slot := range slots {
		e.Limits[i].Held = held[slot]
	}
	if refusal != nil {
		e.Never, e.Keeps, e.ETA = true, Keeps{Limit: refusal.Limit}, time.Time{}
	}
	return e
}

// slotsOf are the slots of needs, each once.
func slotsOf(needs [][]Need) map[*Slot]bool {
	all := map[*Slot]bool{}
	for _, alternative := range needs {
		for _, n := range alternative {
			all[n.Slot] = true
		}
	}
	return all
}

// unenclosed has do see the meters within those that enclose others, under the site's lock.
func unenclosed(needs [][]Need, do func()) {
	for slot := range slotsOf(needs) {
		if m, ok := slot.meter.(enclosing); ok {
			slot.meter = m.Within()
			defer func() { slot.meter = m }()
		}
	}
	do()
}

// limitsNow adds how each limit of a request stands, and answers their slots.
func (s *site) limitsNow(now time.Time, p *Permit, h *Hold, e *Explained) (slots []*Slot) {
	if at := s.now(now, h.Needs[0][0], s.name, ""); !at.Cooling.IsZero() || at.Why != "" {
		e.Limits, slots = append(e.Limits, at), append(slots, s.all)
	}
	seen := map[Scope]bool{}
	for _, alternative := range p.request.Limits {
		for i := range alternative {
			l := &alternative[i]
			at := l.scope(&p.request)
			if seen[at] {
				continue
			}
			seen[at] = true
			need := l.need(s.peek(l, at), &p.request)
			stands := s.now(now, need, l.title(), l.key(&p.request))
			stands.Learned = l.Spec == nil && l.Make != nil
			e.Limits, slots = append(e.Limits, stands), append(slots, need.Slot)
		}
	}
	return slots
}

// enclosing is a meter that has a moment's reasons of its own beside those of the one
// within. Who only asks is told of that, and starts nothing.
type enclosing interface {
	limit.Meter
	Within() limit.Meter
}

// peek is the slot of a limit, or one that nobody else sees.
func (s *site) peek(l *Limit, at Scope) *Slot {
	e := s.entry(at)
	if e != nil && !e.bare {
		return e.slot
	}
	m, fresh, _ := l.meter()
	slot := &Slot{name: l.label(at.Key), title: l.title(), meter: m, fresh: fresh, s: s.sched}
	if e != nil {
		slot.cool, slot.coolWhy, slot.ramp = e.slot.cool, e.slot.coolWhy, e.slot.ramp
		slot.pending = e.slot.pending
		slot.resume(time.Now(), l.Make != nil)
	}
	return slot
}

// now is how a limit stands for a request that needs so much of it.
func (s *site) now(now time.Time, n Need, title, key string) LimitNow {
	slot := n.Slot
	at := LimitNow{
		Limit: title, Key: key, Left: -1, Next: slot.when(now, n.N),
		Why: slot.why(now), InFlight: slot.flying,
	}
	if slot.meter != nil {
		at.Left = slot.Left(now)
		if adaptive, ok := slot.meter.(interface{ Rate(now time.Time) float64 }); ok {
			at.Rate = adaptive.Rate(now)
		}
	}
	away := at.Next.After(now) && slot.away(now) && !slot.cool.After(now)
	if asking := slot.asking(now, at.Next, n.N); away || asking || at.Next.Sub(now) > far {
		at.Next, at.Asks = time.Time{}, away || asking && slot.asks(now, n.N)
	}
	if slot.cool.After(now) {
		at.Cooling = slot.cool
	}
	return at
}
