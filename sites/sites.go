// Package sites has the knowledge about each site: which limits the site announces, which
// of its requests are under them, and which limits only refusals show. It saves this
// knowledge across restarts.
//
//	sites := sites.New(sites.Options{Persistence: p, Names: names, Share: share})
//	site := sites.Open("api.example.com")
//	class, version := site.Class("GET", "", "/items/7", 0)
//	… ask for a permit by site.Limit of each of class.Limits, and send …
//	learned := site.LearnFrom(&sites.Answer{Class: class, Lesson: lesson, …}, permit)
package sites

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/store"
)

const (
	shards    = 16
	mostSites = 256 // of a shard
)

// Sites is the knowledge about all sites. The least recently used are evicted, and restored
// by their next request. It is safe for concurrent use.
type Sites struct {
	seed     maphash.Seed
	saved    *Persistence // nil: nothing is saved
	names    store.Names
	dialect  func(site string) string
	share    func(site string, at queue.Scope, m limit.Meter, restored bool)
	external func(site string, at queue.Scope, m limit.Meter) limit.Meter // of learned limits; nil: none is saved or shared
	shards   [shards]shard
	showing  sync.Mutex // held while saved limits are shown
}

type shard struct {
	mu      sync.Mutex
	known   *simplelru.LRU[string, *Site] // :: name →
	past    uint64                        // the largest version of the sites that have left
	evicted evictedSites
}

// Options configure Sites. All are optional.
type Options struct {
	Persistence *Persistence // nil: nothing outlives this process
	Names       store.Names  // needed with a Persistence
	// Dialect returns how the rule of a site says that its answers are read, "" for the usual ways. What was learned by
	// another dialect is forgotten. nil: all sites have the usual one.
	Dialect func(site string) string
	// Share divides a learned limit between the instances of a fleet; restored means that
	// the limit was known before a restart. It is called under the queue's lock of the
	// site. nil: no fleet.
	Share func(site string, at queue.Scope, m limit.Meter, restored bool)
}

// New makes Sites without knowledge except for what the Persistence has read.
func New(o Options) *Sites {
	s := &Sites{seed: maphash.MakeSeed(), saved: o.Persistence, names: o.Names, dialect: o.Dialect, share: o.Share}
	if s.dialect == nil {
		s.dialect = func(string) string { return "" }
	}
	if s.saved != nil || s.share != nil {
		s.external = s.restoreMeter
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.known, _ = simplelru.NewLRU(mostSites, func(name string, left *Site) { // fails for sizes below 1 only
			sh.past = max(sh.past, left.Version())
			sh.evicted.save(name, left)
		})
	}
	return s
}

// Open returns a site, and makes it if it is unknown.
func (s *Sites) Open(name string) *Site { return s.of(name, true) }

// Find returns a site, or nil if it is unknown.
func (s *Sites) Find(name string) *Site { return s.of(name, false) }

// Recall is Find for a site that may have been known before a restart.
func (s *Sites) Recall(name string) *Site { return s.of(name, s.saved.look(kindOfRoutes, name) != nil) }

func (s *Sites) of(name string, open bool) *Site {
	sh := &s.shards[maphash.String(s.seed, name)%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	site, ok := sh.known.Get(name)
	if ok || !open {
		return site
	}
	site = &Site{routes: routes.New(), since: sh.past, external: s.external}
	if !sh.evicted.restore(name, site.routes) {
		if state := s.saved.Take(kindOfRoutes, name); state != nil {
			_ = site.routes.Restore(state) // an invalid state is ignored
		}
	}
	site.routes.Follow(s.dialect(name))
	sh.known.Add(strings.Clone(name), site)
	return site
}

// visit visits all sites.
func (s *Sites) visit(visit func(name string, site *Site)) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		names, all := sh.known.Keys(), sh.known.Values()
		sh.mu.Unlock()
		for n, one := range all {
			visit(names[n], one)
		}
	}
}

// Known lists sites with learned limits, at most so many: those of this process, and saved
// ones.
func (s *Sites) Known(most int) []string {
	names := s.saved.keys(kindOfRoutes, most)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		known := sh.known.Keys()
		sh.mu.Unlock()
		names = append(names, known[:min(len(known), max(most-len(names), 0))]...)
	}
	return names
}

// ID returns the ID of the learned limit behind a resource; false: it is no learned limit.
func (*Sites) ID(resource string) (id string, learned bool) {
	return strings.CutPrefix(resource, learnedPrefix)
}

// Slot returns the resource of a limit by its ID; with a name, the key used in stores.
func (*Sites) Slot(id string) string { return learnedPrefix + id }

// Name returns the name of a learned limit by its ID, the same in all instances; false: the site
// is not known.
func (s *Sites) Name(site, id string) (name string, known bool) {
	if item := s.Find(site); item != nil {
		item.mu.Lock()
		defer item.mu.Unlock()
		return item.routes.Identity(id), true
	}
	return "", false
}

// IDs returns the IDs of the limits of a site with a name.
func (s *Sites) IDs(site, name string) []string {
	item := s.Find(site)
	if item == nil {
		return nil
	}
	item.mu.Lock()
	defer item.mu.Unlock()
	return slices.DeleteFunc(item.routes.IDs(), func(id string) bool { return item.routes.Identity(id) != name })
}

// Finding returns the last finding about a hidden limit, of this or another instance.
func (s *Sites) Finding(site, name, whose string) (f ledger.Finding, known bool) {
	if item := s.Find(site); item != nil {
		item.mu.Lock()
		defer item.mu.Unlock()
		f, known = item.findings[name+store.Separator+whose]
	}
	return f, known
}

// SetFinding saves a finding about a hidden limit. It returns the version of the site's
// knowledge, and reports whether limits of routes have changed.
func (s *Sites) SetFinding(site, name, whose string, f ledger.Finding) (version uint64, changed bool) {
	item := s.Open(site)
	item.mu.Lock()
	defer item.mu.Unlock()
	if item.findings == nil || len(item.findings) >= mostNames {
		item.findings = map[string]ledger.Finding{}
	}
	item.findings[name+store.Separator+whose] = f
	changed = item.routes.AdoptHidden(name)
	return item.since + item.routes.Version(), changed
}

// KeepFrom makes the Persistence save a gate's cooldowns and meters of learned limits, and the
// routes of sites, and restores the cooldowns of before a restart. Call it before the
// Persistence runs.
func (s *Sites) KeepFrom(gate *queue.Gate) {
	if s.saved == nil {
		return
	}
	cooling := &cooldowns{gate: gate, names: s.names}
	cooling.restore(time.Now(), s.saved.TakeAll(kindOfCooldown))
	s.saved.Add(Source{Kind: kindOfCooldown, Urgent: true, Remove: true, Find: cooling.find})
	s.saved.Add(Source{Kind: kindOfLedger, Find: func(now time.Time, to Found) { s.findMeters(gate, now, to) }})
	var renewed time.Time // when routes that had not changed were written last
	s.saved.Add(Source{Kind: kindOfRoutes, Unwritten: s.notSaved, Find: func(now time.Time, to Found) {
		again := now.Sub(renewed) > lasting/2
		if again {
			renewed = now
		}
		s.visit(func(name string, site *Site) { to.Add(name, site.unsaved(again), now.Add(lasting)) })
	}})
}

// findMeters adds the meters of learned limits.
func (s *Sites) findMeters(gate *queue.Gate, now time.Time, to Found) {
	gate.VisitResources(func(_ time.Time, at queue.ResourceInfo) {
		if _, learned := s.ID(at.At.Limit); !learned || !s.names.Lasting(at.At.Key) || len(to) >= mostStored {
			return
		}
		state := at.State
		if at.Meter != nil {
			state = at.Meter.State()
		}
		to.Add(resourceKey(s.names, at.Site, at.At), state, now.Add(lasting))
	})
}

func (s *Sites) notSaved(name string) {
	if site := s.Find(name); site != nil {
		site.notSaved()
	}
}

// HasMeter reports whether a saved meter of a learned limit has not been restored yet.
func (s *Sites) HasMeter(site string, at queue.Scope) bool {
	return s.saved != nil && s.saved.look(kindOfLedger, resourceKey(s.names, site, at)) != nil
}

// restoreMeter restores a new meter of a learned limit after a restart. It is called under
// the queue's lock of the site.
func (s *Sites) restoreMeter(site string, at queue.Scope, m limit.Meter) limit.Meter {
	restored := false
	if s.saved != nil {
		if state := s.saved.Take(kindOfLedger, resourceKey(s.names, site, at)); state != nil {
			restored = m.Restore(time.Now(), state) == nil // an invalid state is ignored
		}
	}
	if s.share != nil {
		s.share(site, at, m, restored)
	}
	return m
}

const (
	// mostEvictedBytes bounds the memory of the states of a shard's evicted sites: 32 MiB
	// in all shards, or about 60,000 sites with one limit.
	mostEvictedBytes = 32 << 20 / shards
	// longestState bounds the state of an evicted site, in bytes.
	longestState = 16 << 10
	// stateOverhead is the approximate overhead of a state, in bytes.
	stateOverhead = 220
)

// evictedSites stores the states of sites with limits that were evicted from Sites: a request
// to such a site must know its limits. The oldest are dropped first. It is not safe
// for concurrent use.
type evictedSites struct {
	states *simplelru.LRU[string, []byte] // :: site → state of its routes
	bytes  int
}

// save stores the state of a site's routes, if there are limits.
func (l *evictedSites) save(site string, item *Site) {
	item.mu.Lock()
	var state []byte
	if item.routes.Limited() {
		state = item.routes.State()
	}
	item.mu.Unlock()
	if len(state) == 0 || len(state) > longestState {
		return
	}
	if l.states == nil {
		l.states, _ = simplelru.NewLRU(mostEvictedBytes/stateOverhead, func(site string, state []byte) { // fails for sizes below 1 only
			l.bytes -= len(site) + len(state) + stateOverhead
		})
	}
	l.states.Remove(site)
	for l.bytes += len(site) + len(state) + stateOverhead; l.bytes > mostEvictedBytes && l.states.Len() > 0; {
		l.states.RemoveOldest()
	}
	l.states.Add(strings.Clone(site), state)
}

// restore sets routes to the saved state of the site, and returns false if there is none.
func (l *evictedSites) restore(site string, to *routes.Table) bool {
	if l.states == nil {
		return false
	}
	state, known := l.states.Peek(site)
	l.states.Remove(site)
	return known && to.Restore(state) == nil
}
