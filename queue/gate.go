package queue

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a Gate. Zero is unbounded.
type Bounds struct {
	Max     int           // holds in all
	PerSite int           // holds of one site
	Wait    time.Duration // the longest wait
	Aging   time.Duration // how long a priority waits for a step
}

// Request is what somebody wants to send.
type Request struct {
	Site     string
	Client   string
	Weight   int
	Priority int   // 0 (most urgent) to 7; DefaultPriority is the usual one
	Cost     int64 // what fairness counts for it; 0 is 1

	Method, Path string // its route, for limits by it

	Wait time.Duration // shorter than the gate's; 0 is the gate's

	Tag  any    // the caller's own, for the gate's Plan
	Made uint64 // the Generation by which Limits were made, asked for before they were
	Seen uint64 // what was known of the site then, for Replan

	// Limits are alternatives: it needs all of one of them. Empty is no limit. The
	// gate keeps the slices and does not change them, and neither may anybody else.
	Limits [][]Limit
	Pick   func(ready []int) int // see Hold.Pick
	Order  Preference            // the order by which Pick chooses; nil: it has none

	Shared bool // many requests have these very Limits, so their slots are worth remembering

	// Now refuses it unless it may go at once. Wait is then how long a store may take
	// to say what is left of a limit.
	Now bool

	// Observe lets it go at once, whatever the limits say. Permit.Would tells what
	// would have kept it.
	Observe bool
}

// Holder is a Tag that hears, once for each wait, that its request has to wait. Of
// the permit it may only ask for Keeps, and for KeptBy when the wait is over, also if
// that ended with an error.
type Holder interface{ Held(*Permit) }

// Scope names what a cooldown or an observation is about: one of the request's
// limits, or the whole site if it is zero.
type Scope struct {
	Limit, Key string
}

const shards = 64

// Gate holds requests until their site lets them go. It is safe for concurrent
// use; sites share nothing but a count of the requests that wait. NewGate makes
// one, Wait is what most callers want.
type Gate struct {
	bounds   atomic.Pointer[Bounds]
	latest   atomic.Pointer[generation]
	draining atomic.Bool               // nothing new
	drainEnd atomic.Pointer[time.Time] // see StartDrain; nil before that
	over     atomic.Bool               // nothing again
	held     atomic.Int64
	seed     maphash.Seed
	began    time.Time
	many     int // see manySites
	onCool   func(site string, at Scope, until time.Time, why string)
	shards   [shards]shard
}

// shard is a part of the sites, so that looking one up is nobody's bottleneck.
type shard struct {
	mu    sync.RWMutex
	sites map[string]*site // :: name → site
	ring  []*site          // the same, to go through a few at a time
	hand  int

	stored stored // sites that are not among them
}

// NewGate makes a gate. It starts nothing: a site where somebody waits has a
// timer, and no site has a goroutine. plan may be nil: then limits stay as they
// came until a Reload brings one.
func NewGate(b Bounds, plan Plan) *Gate {
	g := &Gate{seed: maphash.MakeSeed(), began: time.Now(), many: manySites}
	g.bounds.Store(&b)
	g.latest.Store(&generation{plan: plan})
	return g
}

// Wait holds a request until it may be sent. The permit must be finished. The
// error is the context's, or a *Refusal.
func (g *Gate) Wait(ctx context.Context, r Request) (*Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.draining.Load() {
		return nil, &Refusal{Reason: Draining}
	}
	s := g.lock(r.Site)
	if g.draining.Load() { // since, and Drain has counted this site already
		s.mu.Unlock()
		return nil, &Refusal{Reason: Draining}
	}
	p := &Permit{request: r, site: s, ctx: ctx, asked: time.Now()}
	p.hold = Hold{Client: r.Client, Weight: r.Weight, Priority: r.Priority, Cost: r.Cost, Pick: r.Pick, owner: p}
	held, err := s.enter(p)
	if err != nil {
		return nil, err
	}
	if held {
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// enter lets a permit's request go, or puts it in the queue. It gives the lock back.
func (s *site) enter(p *Permit) (held bool, err error) {
	defer s.mu.Unlock()
	now, g, r := p.asked, s.gate, &p.request
	s.renew(r)
	if p.hold.Needs, err = s.plan(now, r); err != nil {
		return false, err
	}
	p.hold.choices, p.hold.order = s.choices, r.Order
	if r.Observe {
		p.would = s.sched.Force(now, &p.hold)
		return false, nil
	}
	if s.sched.Try(now, &p.hold) {
		p.asks = p.hold.asks
		return false, nil
	}
	if r.Now && s.sched.tryAllowed(now, &p.hold) {
		p.asks = p.hold.asks
		return false, nil
	}
	b := g.bounds.Load()
	wait := b.Wait
	if r.Wait > 0 && (wait <= 0 || r.Wait < wait) {
		wait = r.Wait
	}
	if wait > 0 {
		p.hold.Deadline = now.Add(wait)
	}
	// Before others make room for it.
	if no := s.sched.foresee(now, &p.hold); no != nil {
		s.sched.hint(now, &p.hold)
		return false, no
	}
	if r.Now {
		if no := s.sched.refuseNow(now, &p.hold); no != nil {
			s.sched.hint(now, &p.hold)
			return false, no
		}
	}
	if err := s.room(now, b, *r); err != nil {
		return false, err
	}
	p.ready = make(chan struct{}, 1)
	s.sched.add(now, &p.hold)
	s.step(now)
	if r.Now {
		if no := s.sched.refuseWaiting(now, &p.hold); no != nil {
			s.sched.Cancel(now, &p.hold)
			s.step(now)
			return false, no
		}
	}
	return true, nil
}

// lock finds a site or makes it, and locks it.
func (g *Gate) lock(name string) *site {
	sh := &g.shards[maphash.String(g.seed, name)%shards]
	for {
		s, _ := sh.find(name)
		if s == nil {
			s = sh.make(g, name)
		}
		s.mu.Lock()
		if !s.gone {
			return s
		}
		s.mu.Unlock() // forgotten between the two locks
	}
}

// make adds a site and looks whether a few others can be forgotten. So memory follows
// the sites whose limits remember something, however many were seen.
func (sh *shard) make(g *Gate, name string) *site {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s := sh.sites[name]; s != nil {
		return s
	}
	now := time.Now()
	sh.forget(now, 4, false, g.many)
	s := newSite(g, name)
	if from := sh.stored.take(name); from != nil {
		s.restore(now, from)
	}
	if sh.sites == nil {
		sh.sites = map[string]*site{}
	}
	sh.sites[name] = s
	sh.ring = append(sh.ring, s)
	return s
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
func (g *Gate) each(use func(*site)) { g.everywhere(use, func(*storedSite) {}) }

// everywhere calls use with every site, locked, and short with every stored site.
func (g *Gate) everywhere(use func(*site), short func(*storedSite)) {
	for i := range g.shards {
		sh := &g.shards[i]
		sh.mu.RLock()
		sites := append([]*site(nil), sh.ring...)
		stored := sh.stored.list()
		sh.mu.RUnlock()
		for _, s := range sites {
			s.mu.Lock()
			for s.gone { // since the list was made
				s.mu.Unlock()
				now, rest := sh.find(s.name)
				if rest != nil {
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

// find is a site, or what is stored of it; both are nil if it is not remembered.
func (sh *shard) find(name string) (s *site, stored *storedSite) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if s = sh.sites[name]; s == nil {
		stored = sh.stored.known[name]
	}
	return s, stored
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

// Held is a request that waits, for people.
type Held struct {
	Site, Client string
	Priority     int
	Since        time.Time
	Waiting
}

// Holds are the requests that wait at a site, in order; "" is every site. When each goes
// is found out without the lock of its site, which is only taken to look at its limits.
func (g *Gate) Holds(name string) []Held {
	var list []Held
	for _, s := range g.sites() {
		if name != "" && s.name != name {
			continue
		}
		for _, w := range s.predicted() {
			list = append(list, Held{Site: s.name, Client: w.Hold.Client, Priority: w.class, Since: w.since, Waiting: w})
		}
	}
	return list
}

// predicted are the requests that wait, in order, with when each goes. That is found out
// without the lock of the site, which is only taken to look at its limits.
func (s *site) predicted() []Waiting {
	s.mu.Lock()
	now := time.Now()
	if held, _ := s.sched.Len(); held == 0 || s.gone {
		s.mu.Unlock()
		return nil
	}
	all := s.sched.snapshot(now, nil)
	s.mu.Unlock()
	line := all.line()
	place(line)
	predict(now, line, func(look func(time.Time)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		look(time.Now())
	})
	return line
}

// HeldCount is how many requests of one client and priority wait at a site.
type HeldCount struct {
	Site, Client string
	Priority     int
}

// HeldCounts counts the requests that wait at a site; "" is every site. It asks no limit.
func (g *Gate) HeldCounts(name string) map[HeldCount]int {
	counts := map[HeldCount]int{}
	if g.held.Load() == 0 {
		return counts
	}
	g.each(func(s *site) {
		if name != "" && s.name != name {
			return
		}
		for _, h := range s.sched.all() {
			counts[HeldCount{s.name, h.Client, h.class}]++
		}
	})
	return counts
}
