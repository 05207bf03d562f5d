package queue

import (
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit"
)

// Bounds of a Gate. Zero is unbounded.
type Bounds struct {
	Max     int           // holds in all
	PerSite int           // holds of one site
	Wait    time.Duration // the longest wait
	Aging   time.Duration // how long a priority waits for a step
}

// deadline returns the time at which a request that came at a time stops waiting; zero is never.
func (b *Bounds) deadline(r *Request, came time.Time) time.Time {
	wait := max(b.Wait, r.Wait)
	switch {
	case r.Now:
		return came
	case wait == 0:
		return time.Time{}
	case b.Wait > 0 && r.Wait > 0:
		wait = min(b.Wait, r.Wait)
	}
	return came.Add(wait)
}

// Gate holds requests until their site lets them go. It is safe for concurrent
// use; sites share nothing but a count of the requests that wait. NewGate makes
// one; most callers want Wait.
type Gate struct {
	clock  clock.Clock
	began  time.Time
	bounds atomic.Pointer[Bounds]
	latest atomic.Pointer[generation]
	held   atomic.Int64 // requests that wait at all sites

	// Drain:
	draining atomic.Bool               // new requests are refused
	drainEnd atomic.Pointer[time.Time] // see EndHolds; nil before that
	over     atomic.Bool               // bytes are refused too

	seed   maphash.Seed
	shards [shards]shard
	many   int // see manySites
}

// generation is the limits between two reloads.
type generation struct {
	number uint64
	hooks  Hooks // nil: limits stay as they came
}

// NewGate makes a gate. It starts nothing: a site where a request waits has a timer, and
// no site has a goroutine. hooks may be nil: then limits stay as they came until a Reload
// brings some.
func NewGate(b Bounds, hooks Hooks) *Gate { return NewGateWithClock(clock.System, b, hooks) }

// NewGateWithClock is NewGate with another clock than the computer's. In virtual time
// use Enter in place of Wait: nothing else would let the time pass.
func NewGateWithClock(c clock.Clock, b Bounds, hooks Hooks) *Gate {
	g := &Gate{clock: c, began: c.Now(), many: manySites, seed: maphash.MakeSeed()}
	g.bounds.Store(&b)
	g.latest.Store(&generation{hooks: hooks})
	return g
}

// Wait holds a request until it may be sent. The permit must be finished. The
// error is the context's, or a *Refusal.
func (g *Gate) Wait(ctx context.Context, r Request) (*Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, held, err := g.Enter(ctx, r, nil)
	if err == nil && held {
		err = p.wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Enter is Wait without a goroutine that waits. If held is true, the request waits, and
// woken is called when the wait is over; then Permit.Woken has its result, once. woken is
// called under the lock of the site, so it only notes the call, and sometimes twice. A wait
// whose ctx has ended must be ended with Permit.Leave.
func (g *Gate) Enter(ctx context.Context, r Request, woken func()) (p *Permit, held bool, err error) {
	s := g.lock(r.Site)
	if g.draining.Load() { // Drain may have counted this site already
		s.mu.Unlock()
		return nil, false, &Refusal{Reason: Draining}
	}
	ending := g.drainEnd.Load() != nil
	if ending {
		r.Now = true
	}
	p = &Permit{request: r, ctx: ctx, asked: g.clock.Now(), site: s}
	if woken != nil {
		p.waker = wakeFunc(woken)
	}
	p.hold = hold{name: r.Client, weight: r.Weight, priority: r.Priority, cost: r.Cost, order: r.Order, owner: p}
	if held, err = s.enter(p); err != nil {
		if refusal, ok := errors.AsType[*Refusal](err); ok && ending && refusal.Reason == TooLong {
			err = &Refusal{Reason: Draining}
		}
		return nil, false, err
	}
	if held {
		p.reportWait()
	}
	return p, held, nil
}

// Preload makes the meters of a request's limits, as if the request had come and gone, for
// the scopes that are known from before. So the status shows what is left of limits that
// are kept elsewhere.
func (g *Gate) Preload(r Request, known func(at Scope) bool) {
	var list []*Limit
	for _, alternative := range r.Limits {
		for i := range alternative {
			if l := &alternative[i]; known(l.scope(&r)) {
				list = append(list, l)
			}
		}
	}
	if len(list) == 0 {
		return
	}
	s := g.lock(r.Site)
	defer s.mu.Unlock()
	now := g.clock.Now()
	if r.Generation != g.Generation() {
		return // these are limits of yesterday
	}
	for _, l := range list {
		if s.registry.entry(l.scope(&r)) == nil {
			_, _ = s.registry.resourceFor(now, l, &r) // one that makes no sense is said to who sends a request
		}
	}
}

// Generation counts the reloads that changed limits. The caller who makes a Request reads it
// before the configuration that the request's limits are made from.
func (g *Gate) Generation() uint64 { return g.latest.Load().number }

// Reload sets other bounds and other limits. It asks hooks for the limits of every request that
// waits, which keeps its place, and from now on for the limits of requests that were made
// before the reload, so hooks must know the new limits already. nil leaves the limits and the
// hooks. A limit with a known name and another Spec stays as used as it was. Requests that are
// now larger than a limit are refused.
func (g *Gate) Reload(b Bounds, hooks Hooks) {
	g.bounds.Store(&b)
	for hooks != nil {
		old := g.latest.Load()
		if g.latest.CompareAndSwap(old, &generation{old.number + 1, hooks}) {
			break
		}
	}
	g.each(func(s *site, now time.Time) {
		s.sched.aging = b.Aging
		if hooks != nil {
			s.registry.forgetFound()
			s.replan(now, false)
		}
		s.step(now)
	})
}

// Replan says that what is known of a site has a new version. Requests of an older version,
// those that wait and those that come later, get the limits that the hooks have now; a request
// that waits keeps its place. The hooks must know the limits already. Replan does nothing if
// version is not larger than all before, or if the site is not in memory.
func (g *Gate) Replan(name string, version uint64) {
	g.change(name, func(s *site, now time.Time) {
		if version > s.version {
			s.version = version
			s.replan(now, false)
		}
	})
}

// AskAgain gives the requests that wait at a site the limits that the hooks have for them now.
func (g *Gate) AskAgain(name string) {
	g.change(name, func(s *site, now time.Time) { s.replan(now, true) })
}

// StartDrain is EndHolds, and refuses all new requests.
func (g *Gate) StartDrain(end time.Time) (refused, waiting int) {
	g.draining.Store(true)
	return g.EndHolds(end)
}

// EndHolds refuses, until the end, new requests that cannot go at once, at once those waiting ones that surely go after
// the end, and at the end all others that wait. It answers how many it has refused, and how many still wait.
func (g *Gate) EndHolds(end time.Time) (refused, waiting int) {
	g.drainEnd.Store(&end)
	g.clock.AfterFunc(end.Sub(g.clock.Now()), func() { g.refuseHolds(); g.drainEnd.CompareAndSwap(&end, nil) })
	for _, s := range g.sites() {
		refused += s.refuseAfter(end, nil)
	}
	return refused, int(g.held.Load())
}

// Drain refuses new requests and waits until those that are held or granted are
// over. When the context ends first, what is still held is refused.
func (g *Gate) Drain(ctx context.Context) error {
	g.draining.Store(true)
	var busy []chan struct{}
	g.each(func(s *site, _ time.Time) {
		if s.sched.held+s.sched.granted > 0 {
			done := make(chan struct{})
			s.drained = append(s.drained, done)
			busy = append(busy, done)
		}
	})
	for _, done := range busy {
		select {
		case <-done:
		case <-ctx.Done():
			g.Close()
			return ctx.Err()
		}
	}
	return nil
}

// Close refuses all requests that wait and all to come, those that are sent again
// included.
func (g *Gate) Close() {
	g.draining.Store(true)
	g.over.Store(true)
	now := g.clock.Now()
	g.drainEnd.Store(&now)
	g.each(func(s *site, _ time.Time) { s.sched.byteQueue.refuse(now, nil, &Refusal{Reason: Draining}) })
	g.refuseHolds()
}

func (g *Gate) refuseHolds() {
	g.each(func(s *site, now time.Time) { s.refuseHeld(now, Refusal{Reason: Draining}) })
}

// Len returns the number of sites remembered and the number of requests that wait.
func (g *Gate) Len() (sites, held int) {
	for i := range g.shards {
		sh := &g.shards[i]
		sh.mu.RLock()
		sites += len(sh.sites) + len(sh.stored.known)
		sh.mu.RUnlock()
	}
	return sites, int(g.held.Load())
}

// Knows tells whether a site is remembered.
func (g *Gate) Knows(name string) bool {
	s, stored := g.shardOf(name).find(name)
	return s != nil || stored != nil
}

// RefuseHeld refuses all requests that wait at a site.
func (g *Gate) RefuseHeld(name string, r Refusal) {
	g.change(name, func(s *site, now time.Time) { s.refuseHeld(now, r) })
}

func (g *Gate) shardOf(name string) *shard { return &g.shards[maphash.String(g.seed, name)%shards] }

// lock finds a site or makes it, and locks it.
func (g *Gate) lock(name string) *site {
	for {
		if s, _ := g.shardOf(name).lock(name); s != nil {
			return s
		}
		g.shardOf(name).make(g, name)
	}
}

// change calls do with a site, locked, and grants what may go by that. It returns false, without a call, if the
// site is not remembered.
func (g *Gate) change(name string, do func(s *site, now time.Time)) bool {
	s, _ := g.shardOf(name).lock(name)
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	now := g.clock.Now()
	do(s, now)
	s.step(now)
	return true
}

// each calls use with every site, locked.
func (g *Gate) each(use func(s *site, now time.Time)) { g.everywhere(use, nil) }

// everywhere calls use with every site, locked, and short, unless it is nil, with every
// stored site, of which there may be a million.
func (g *Gate) everywhere(use func(s *site, now time.Time), short func(*storedSite)) {
	for i := range g.shards {
		sh := &g.shards[i]
		sites, stored := sh.all(short != nil)
		for _, listed := range sites {
			switch s, rest := sh.lock(listed.name); { // it may be forgotten since, or stored
			case s != nil:
				use(s, g.clock.Now())
				s.mu.Unlock()
			case rest != nil && short != nil:
				short(rest)
			}
		}
		for _, one := range stored {
			short(one)
		}
	}
}

// sites are all but those that are only stored, where nothing waits.
func (g *Gate) sites() (all []*site) {
	for i := range g.shards {
		sites, _ := g.shards[i].all(false)
		all = append(all, sites...)
	}
	return all
}

// cooled reports a cooldown to the hooks, after the lock of the site was given back.
func (g *Gate) cooled(site string, at Scope, until time.Time, why string) {
	if hooks := g.latest.Load().hooks; hooks != nil {
		hooks.Cooled(site, at, until, why)
	}
}

// ResourceInfo is the state of a resource. It may be used until the visit is over.
type ResourceInfo struct {
	Site    string
	At      Scope       // zero: the whole site; the key "other" may stand for all keys without an own resource
	Title   string      // of its limit
	Spec    *limit.Spec // nil: MeterSource.NewMeter has made the meter, or there is none
	Meter   limit.Meter // nil: it only cools, or its meter is not made yet
	State   []byte      // of a meter that is not made yet; nil otherwise
	Cooling time.Time   // end of the cooldown; zero: none

	why      string    // it cools
	shared   bool      // by all keys without an own resource
	resource *resource // nil: of a stored site
}

// Left returns what is left of a resource with a Spec.
func (r ResourceInfo) Left(now time.Time) int64 { return r.resource.left(now) }

// VisitResources visits all resources. It locks one site after the other and calls visit
// under the lock, because meters are not safe without it: visit only copies what it
// wants to know, and never calls the gate or a permit.
func (g *Gate) VisitResources(visit func(now time.Time, at ResourceInfo)) {
	g.everywhere(func(s *site, now time.Time) { s.visit(now, visit) }, func(s *storedSite) { s.visit(g.clock.Now(), g.began, visit) })
}

// VisitLoadedResources is VisitResources without the resources of stored sites, which have no
// meter and of which there may be a million.
func (g *Gate) VisitLoadedResources(visit func(now time.Time, at ResourceInfo)) {
	g.each(func(s *site, now time.Time) { s.visit(now, visit) })
}

// VisitSite is VisitLoadedResources for one site.
func (g *Gate) VisitSite(name string, visit func(now time.Time, at ResourceInfo)) {
	if s, _ := g.shardOf(name).lock(name); s != nil {
		defer s.mu.Unlock()
		s.visit(g.clock.Now(), visit)
	}
}

// visit is VisitResources for a site, which is locked.
func (s *site) visit(now time.Time, visit func(now time.Time, at ResourceInfo)) {
	see := func(res *resource, at Scope, spec *limit.Spec, shared bool) {
		n := ResourceInfo{Site: s.name, At: at, Title: res.title, Spec: spec, Meter: res.meter, resource: res, shared: shared}
		if res.cooldown.until.After(now) {
			n.Cooling, n.why = res.cooldown.until, res.cooldown.reason
		}
		if res.pendingUntil.After(now) {
			n.State = res.pending
		}
		visit(now, n)
	}
	see(s.registry.whole, Scope{}, nil, false)
	for at, e := range s.registry.byScope {
		see(e.resource, at, e.spec, e.shared)
	}
}
