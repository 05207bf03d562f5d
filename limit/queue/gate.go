package queue

import (
	"context"
	"hash/maphash"

	"github.com/abide-proxy/abide/internal/clock"
)

// Gate holds requests until their site lets them go. It is safe for concurrent
// use; sites share nothing but a count of the requests that wait. NewGate makes
// one, Wait is what most callers want.
type Gate struct {
	gateState
	seed   maphash.Seed
	shards [shards]shard
}

// NewGate makes a gate. It starts nothing: a site where a request waits has a timer, and
// no site has a goroutine. hooks may be nil: then limits stay as they came until a Reload
// brings some.
func NewGate(b Bounds, hooks Hooks) *Gate { return NewGateWithClock(clock.System, b, hooks) }

// NewGateWithClock is NewGate with another clock than the computer's. In virtual time
// use Enter in place of Wait: nothing else would let the time pass.
func NewGateWithClock(c clock.Clock, b Bounds, hooks Hooks) *Gate {
	g := &Gate{gateState: gateState{clock: c, began: c.Now(), many: manySites}, seed: maphash.MakeSeed()}
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
	if g.draining.Load() {
		return nil, false, &Refusal{Reason: Draining}
	}
	s := g.lock(r.Site)
	if g.draining.Load() { // since, and Drain has counted this site already
		s.mu.Unlock()
		return nil, false, &Refusal{Reason: Draining}
	}
	p = &Permit{caller: caller{request: r, ctx: ctx, asked: g.clock.Now()}, site: s}
	if woken != nil {
		p.waker = wakeFunc(woken)
	}
	p.hold = hold{name: r.Client, weight: r.Weight, priority: r.Priority, cost: r.Cost, chooser: r.Chooser, owner: &p.caller}
	if held, err = s.enter(p); err != nil {
		return nil, false, err
	}
	if held {
		p.reportWait()
	}
	return p, held, nil
}

// lock finds a site or makes it, and locks it.
func (g *Gate) lock(name string) *site {
	sh := &g.shards[maphash.String(g.seed, name)%shards]
	for {
		s, _ := sh.find(name)
		if s == nil {
			s = sh.make(&g.gateState, name)
		}
		s.mu.Lock()
		if !s.gone {
			return s
		}
		s.mu.Unlock() // forgotten between the two locks
	}
}

// find is a site that is remembered, locked, or nil.
func (g *Gate) find(name string) *site {
	sh := &g.shards[maphash.String(g.seed, name)%shards]
	s, _ := sh.find(name)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return nil
	}
	return s
}

// Knows tells whether a site is remembered.
func (g *Gate) Knows(name string) bool {
	sh := &g.shards[maphash.String(g.seed, name)%shards]
	s, stored := sh.find(name)
	return s != nil || stored != nil
}

// each calls use with every site, locked.
func (g *Gate) each(use func(*site)) { g.everywhere(use, nil) }

// everywhere calls use with every site, locked, and short, unless it is nil, with every
// stored site, of which there may be a million.
func (g *Gate) everywhere(use func(*site), short func(*storedSite)) {
	for i := range g.shards {
		sh := &g.shards[i]
		sh.mu.RLock()
		sites := append([]*site(nil), sh.ring...)
		var stored []*storedSite
		if short != nil {
			stored = sh.stored.list()
		}
		sh.mu.RUnlock()
		for _, s := range sites {
			s.mu.Lock()
			for s.gone { // since the list was made
				s.mu.Unlock()
				now, rest := sh.find(s.name)
				if rest != nil && short != nil {
					short(rest)
				}
				if s = now; s == nil {
					break
				}
				s.mu.Lock()
			}
			if s != nil {
				use(s)
				s.mu.Unlock()
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
		sh := &g.shards[i]
		sh.mu.RLock()
		all = append(all, sh.ring...)
		sh.mu.RUnlock()
	}
	return all
}

// Len is how many sites are remembered and how many requests wait.
func (g *Gate) Len() (sites, held int) {
	for i := range g.shards {
		sh := &g.shards[i]
		sh.mu.RLock()
		sites += len(sh.ring) + len(sh.stored.known)
		sh.mu.RUnlock()
	}
	return sites, int(g.held.Load())
}
