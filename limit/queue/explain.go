package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/status"
)

// Explanation describes the limits and waits that a request would meet now, as far as the queue knows. Limits
// are those that it needs, in order; the site itself only while it cools.
type Explanation struct {
	status.Explanation
	Blocker Blocker // empty if it would go at once
}

// Explain tells what a request would meet now. It makes nothing and changes
// nothing: a site that is not remembered stays so. A limit that makes no sense is
// shown as one without an amount.
func (g *Gate) Explain(r Request) Explanation {
	s, from := g.shardOf(r.Site).lock(r.Site)
	if s == nil {
		s = newSite(g, r.Site) // nobody else has it
		if from != nil {
			s.restore(g.clock.Now(), from)
		}
		s.mu.Lock()
	}
	return s.explain(r)
}

// explain reads the locked site, unlocks it, and then estimates when the request would go,
// which takes long if many requests wait.
func (s *site) explain(r Request) Explanation {
	now := s.gate.clock.Now()
	s.renew(&r)
	h := &hold{name: r.Client, weight: r.Weight, priority: r.Priority, cost: r.Cost}
	h.needs = [][]need{{{resource: s.registry.whole}}}
	for i, alternative := range r.Limits {
		needs := []need{{resource: s.registry.whole}}
		for j := range alternative {
			l := &alternative[j]
			needs = merge(needs, l.need(s.registry.preview(now, l, l.scope(&r)), &r))
		}
		h.needs = append(h.needs[:i], needs)
	}
	var e Explanation
	e.Held, e.InFlight = s.sched.held, s.sched.granted
	for res := range resourcesOf(h.needs) {
		if m, ok := res.meter.(interface{ OthersUse() bool }); ok && m.OthersUse() {
			e.Shared = true
		}
	}
	var all *snapshot
	var refusal *Refusal
	var resources []*resource // of e.Limits
	unenclosed(h.needs, func() {
		all = s.sched.snapshot(now, h)
		refusal = neverFits(now, h.needs)
		resources = s.limitsNow(now, &r, h, &e)
	})
	s.mu.Unlock()
	line := all.inOrder(func(look func(time.Time)) {
		s.locked(func(now time.Time) { unenclosed(h.needs, func() { look(now) }) })
	})
	held := map[string]int{} // :: name of a resource → holds
	for _, w := range line {
		if w.hold == h {
			e.Place, e.Blocker, e.Expected = w.Place, w.Blocker, w.ETA
			continue
		}
		held[w.Limit]++
	}
	for i, res := range resources {
		e.Limits[i].Held = held[res.name]
	}
	if refusal != nil {
		e.Never, e.Blocker, e.Expected = true, Blocker{Limit: refusal.Limit}, time.Time{}
	}
	k := &e.Blocker
	e.Limit, e.Why, e.Until, e.First, e.Asks = k.Limit, k.Why, k.Until, k.Behind, k.Asking
	return e
}

// resourcesOf are the resources of needs, each once.
func resourcesOf(needs [][]need) map[*resource]bool {
	all := map[*resource]bool{}
	for _, alternative := range needs {
		for _, n := range alternative {
			all[n.resource] = true
		}
	}
	return all
}

// unenclosed calls do with each enclosing meter replaced by the meter within. The site's lock
// is held.
func unenclosed(needs [][]need, do func()) {
	for res := range resourcesOf(needs) {
		if m, ok := res.meter.(enclosing); ok {
			remote := res.remote
			res.meter, res.remote = m.Within(), nil
			defer func() { res.meter, res.remote = m, remote }()
		}
	}
	do()
}

// limitsNow adds how each limit of a request stands, and answers their resources.
func (s *site) limitsNow(now time.Time, r *Request, h *hold, e *Explanation) (resources []*resource) {
	if at := s.now(now, h.needs[0][0], s.name, ""); !at.Cooling.IsZero() || at.Why != "" {
		e.Limits, resources = append(e.Limits, at), append(resources, s.registry.whole)
	}
	seen, late := map[Scope]int{}, late(now, h.needs)
	for n, alternative := range r.Limits {
		for i := range alternative {
			l := &alternative[i]
			at := l.scope(r)
			if i, there := seen[at]; there {
				e.Limits[i].Unused = e.Limits[i].Unused && late[n]
				continue
			}
			seen[at] = len(e.Limits)
			need := l.need(s.registry.preview(now, l, at), r)
			stands := s.now(now, need, l.title(), l.key(r))
			stands.Learned, stands.Unused = l.made(), late[n]
			e.Limits, resources = append(e.Limits, stands), append(resources, need.resource)
		}
	}
	return resources
}

// sameTime is the difference below which two alternatives count as ready at the same time.
const sameTime = time.Second

// late tells which alternatives are ready later than another. What the site has denied is late,
// unless it has denied all.
func late(now time.Time, needs [][]need) []bool {
	every, ends, list := allDenied(now, needs), make([]time.Time, len(needs)), make([]bool, len(needs))
	for i, alternative := range needs {
		ends[i] = now
		if !every && denied(now, alternative) {
			ends[i] = now.Add(4 * far)
		} else if b := longestBlock(now, now, alternative); b.resource != nil {
			ends[i] = b.at
		}
	}
	first := slices.MinFunc(ends, time.Time.Compare)
	for i, at := range ends {
		list[i] = at.Sub(first) > sameTime
	}
	return list
}

// enclosing is a meter that has a moment's reasons of its own beside those of the one
// within. Who only asks is told of that, and starts nothing.
type enclosing interface {
	limit.Meter
	Within() limit.Meter
}

// preview is the resource of a limit, or an independent copy if the limit has none yet.
func (s *registry) preview(now time.Time, l *Limit, at Scope) *resource {
	e := s.entry(at)
	if e != nil && !e.onlyCools {
		return e.resource
	}
	m, fresh, _ := l.meter()
	if source, ok := l.Source.(interface {
		Unused(Scope, limit.Spec, limit.Meter) limit.Meter
	}); ok && l.Spec != nil {
		m = source.Unused(at, *l.Spec, m)
	}
	res := &resource{name: l.label(at.Key), title: l.title(), meter: m, fresh: fresh, agenda: &s.sched.agenda}
	res.remote, _ = m.(Remote)
	if e != nil {
		res.cooldown = e.resource.cooldown
		res.pending = e.resource.pending
		res.resume(now, l.made())
	}
	return res
}

// now returns the state of a limit for a request that needs so much of it.
func (s *site) now(now time.Time, n need, title, key string) status.ExplainedLimit {
	res := n.resource
	at := status.ExplainedLimit{
		Limit: title, Of: key, Left: -1, Next: now,
		Why: res.cooldown.why(now), InFlight: res.inFlight,
	}
	if res.meter != nil {
		at.Left = res.left(now)
		if adaptive, ok := res.meter.(interface{ Rate(now time.Time) float64 }); ok {
			at.Rate = adaptive.Rate(now)
		}
		if learned, ok := res.meter.(interface {
			GuessedWindow() time.Duration
			Announced() bool
		}); ok {
			at.GuessedWindow, at.Unknown = learned.GuessedWindow().Seconds(), !learned.Announced()
		}
	}
	if b := longestBlock(now, now, []need{n}); b.resource != nil {
		blocker := b.describe(now)
		at.Next, at.Asks = blocker.Until, blocker.Asking
	}
	if res.cooldown.until.After(now) {
		at.Cooling = res.cooldown.until
	}
	return at
}

// blocker returns the cause that blocks a hold that waits or is delayed, and the resource, which is nil
// for a delayed hold.
func blocker(now time.Time, h *hold) (found Blocker, res *resource) {
	if h.state == stateDelayed {
		return Blocker{Limit: retryLimit, Until: h.later}, nil
	}
	every := allDenied(now, h.needs)
	var first block
	titles := map[string]int{} // :: of a limit → alternatives that it blocks
	for _, needs := range h.needs {
		if !every && denied(now, needs) {
			continue
		}
		b := longestBlock(now, now, needs)
		if b.resource == nil {
			i := slices.IndexFunc(needs, func(n need) bool { return n.resource.waitlist != nil })
			if i < 0 {
				return Blocker{}, nil
			}
			b = block{resource: needs[i].resource, at: needs[i].resource.wake, behind: true}
		}
		titles[b.resource.title]++
		if first.resource == nil || !b.at.IsZero() && b.at.Before(first.at) {
			first = b
		}
	}
	found, res = first.describe(now), first.resource
	if res.title != res.name && titles[res.title] > 1 {
		found.Any, found.Title = titles[res.title], res.title
	}
	return found, res
}

// titledBlocker is blocker with the title of the limit in place of the name of the
// resource.
func titledBlocker(now time.Time, h *hold) Blocker {
	k, res := blocker(now, h)
	if res != nil {
		k.Limit = res.title
	}
	return k
}

// missing tells whether needs lack something that is known, and whether a store is asked about others. Of a limit of which
// nothing is known, nothing is lacking.
func missing(now time.Time, needs []need) (lacks, asks bool) {
	for _, n := range needs {
		switch at := n.resource.when(now, n.n); {
		case !at.After(now), n.resource.unknown(now, n.n):
		case n.resource.asking(now, at, n.n):
			asks = true
		default:
			lacks = true
		}
	}
	return lacks, asks
}

// asks tells whether a hold waits for nothing but the answer of a store.
func (h *hold) asks(now time.Time) bool {
	return h.state == stateWaiting && slices.ContainsFunc(h.needs, func(needs []need) bool {
		lacks, asks := missing(now, needs)
		return asks && !lacks
	})
}
