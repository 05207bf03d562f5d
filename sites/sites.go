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
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
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
	names    Names
	share    func(site string, at queue.Scope, m limit.Meter, restored bool)
	external func(site string, at queue.Scope, m limit.Meter) limit.Meter // of learned limits; nil: none is saved or shared
	shards   [shards]shard
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
	Names       Names        // needed with a Persistence
	// Share divides a learned limit between the instances of a fleet; restored means that
	// the limit was known before a restart. It is called under the queue's lock of the
	// site. nil: no fleet.
	Share func(site string, at queue.Scope, m limit.Meter, restored bool)
}

// New makes Sites without knowledge except for what the Persistence has read.
func New(o Options) *Sites {
	s := &Sites{seed: maphash.MakeSeed(), saved: o.Persistence, names: o.Names, share: o.Share}
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
func (s *Sites) Recall(name string) *Site { return s.of(name, s.saved.has(kindOfRoutes, name)) }

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

// Saved lists sites whose learned limits were saved and are not read yet, at most so many.
func (s *Sites) Saved(most int) []string { return s.saved.keys(kindOfRoutes, most) }

// Known lists sites with learned limits, at most so many: those of this process, and saved
// ones.
func (s *Sites) Known(most int) []string {
	names := s.Saved(most)
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
	if item.findings == nil || len(item.findings) >= mostRefusals {
		item.findings = map[string]ledger.Finding{}
	}
	item.findings[name+store.Separator+whose] = f
	changed = item.routes.AdoptHidden(name)
	return item.since + item.routes.Version(), changed
}

// Names translates keys of the queue's resources to names that are the same in every
// process.
type Names interface {
	// Stable returns the name of a resource's key at a site.
	Stable(site, key string) string
	// Local returns the keys of a name in this process, for the resources of a limit. There
	// are none for a token that this process does not have.
	Local(site, limit, name string) []string
	// Lasting reports whether a key has a meaning in other processes.
	Lasting(key string) bool
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

// titles caches the names of a site's learned limits. They change with the site's routes.
// The zero value is empty.
type titles struct {
	version uint64            // version of the routes that they belong to
	known   map[string]string // :: ID of a limit → its name
	taken   map[string]bool   // :: name in known
	limits  int               // of the site
	same    map[string]int    // :: amount → limits of the site with it
}

// of returns the name of a limit: "5 per 5s", with a route if the site has several limits. Names
// are unique within a site. other is used if the routes do not know the limit.
func (t *titles) of(all *routes.Table, id, other string) string {
	if v := all.Version(); t.known == nil || v != t.version {
		*t = titles{version: v, known: map[string]string{}, taken: map[string]bool{}, same: map[string]int{}}
		for _, one := range all.IDs() {
			t.limits++
			t.same[all.Title(one)]++
		}
	}
	title, known := t.known[id]
	if !known {
		title = t.name(all, id, other)
		if t.taken[title] {
			title = policy.LearnedTitle(title, id)
		}
		t.known[id], t.taken[title] = title, true
	}
	return title
}

// name returns the server's name of the limit, if any. Otherwise it contains a route if the site
// has several limits and the route identifies it: it covers that route alone, or another
// limit has the same amount. A limit of every route that the site does not announce has no
// other name.
func (t *titles) name(all *routes.Table, id, other string) string {
	amount := cmp.Or(all.Title(id), other)
	bucket, under := all.Describe(id)
	switch {
	case amount == routes.HiddenTitle && len(under) == 0:
		return amount
	case bucket != "" || amount == "" || len(under) == 0:
		return policy.LearnedTitle(amount, routeOf(all, id))
	case len(under) == 1 && t.limits > 1:
		return policy.LearnedTitle(amount, under[0])
	case t.same[amount] > 1:
		return policy.LearnedTitle(amount, under[0]+" and others")
	}
	return amount
}

// routeOf returns the site's name of a limit, or else the routes that are under it.
func routeOf(all *routes.Table, id string) string {
	bucket, routes := all.Describe(id)
	switch {
	case bucket != "":
		return bucket
	case len(routes) == 0:
		return id
	case len(routes) > 1:
		return fmt.Sprintf("%s and %d more", routes[0], len(routes)-1)
	}
	return routes[0]
}
