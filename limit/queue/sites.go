package queue

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// shards is the number of parts that the sites of a Gate are in.
const shards = 64

const (
	// manySites is the number of sites that are remembered before those leave as well of which
	// something is known: that none of a limit is used, or what the next answer says
	// again. Other idle sites are stored then.
	manySites = 20_000
)

// ForgetParts is the number of parts of ForgetIdle.
const ForgetParts = shards

// shard is a part of the sites, so that looking up a site does not wait for the others.
type shard struct {
	mu     sync.RWMutex
	sites  map[string]*site // :: name → site
	peak   int              // how many the map has had
	stored storedSites      // sites that are not among them
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

// all are the sites at one moment, and the stored ones if these are wanted, of which there may be very many.
func (sh *shard) all(short bool) (sites []*site, stored []*storedSite) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	sites = slices.AppendSeq(make([]*site, 0, len(sh.sites)), maps.Values(sh.sites))
	if short {
		stored = slices.AppendSeq(make([]*storedSite, 0, len(sh.stored.known)), maps.Values(sh.stored.known))
	}
	return sites, stored
}

// lock is find, and locks the site.
func (sh *shard) lock(name string) (s *site, stored *storedSite) {
	for {
		if s, stored = sh.find(name); s == nil {
			return nil, stored
		}
		if s.mu.Lock(); !s.gone {
			return s, nil
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
	now, looks := g.clock.Now(), 4
	for _, old := range sh.sites { // in no order
		if looks--; looks < 0 {
			break
		}
		sh.forget(now, old, false, g.many)
	}
	s := newSite(g, name)
	if from := sh.stored.take(name); from != nil {
		s.restore(now, from)
	}
	if sh.sites == nil {
		sh.sites = map[string]*site{}
	}
	sh.sites[name] = s
	sh.peak = max(sh.peak, len(sh.sites))
	return s
}

// forget forgets a site if it can. With known, a site of which something is known stays unless there are
// very many. What it keeps back then is stored. The shard is locked.
func (sh *shard) forget(now time.Time, s *site, known bool, most int) {
	many := len(sh.sites) > most/shards
	if known && !many && s.knows() {
		return
	}
	left, rest := s.forget(now, many)
	if rest != nil {
		sh.stored.add(rest)
	}
	if left {
		delete(sh.sites, s.name)
	}
}

// shrunk returns a map in less memory if it has had many more: a map never gives its memory back.
func shrunk[V any](m map[string]V, peak int) (map[string]V, int) {
	switch n := len(m); {
	case n == 0:
		return nil, 0
	case n < peak/4:
		smaller := make(map[string]V, n)
		maps.Copy(smaller, m)
		return smaller, n
	}
	return m, peak
}

// knows tells whether the site has a limit that is shown to the operator, or has learned
// one. A site that is locked is in use.
func (s *site) knows() bool {
	if !s.mu.TryLock() {
		return true
	}
	defer s.mu.Unlock()
	for _, e := range s.registry.byScope {
		if m, ok := e.resource.meter.(Storable); e.shared || ok && !m.Blank() || e.spec != nil && !e.spec.Traits().InFlight {
			return true
		}
	}
	return false
}

// forget marks the site as gone if nothing would change by it, or little where there are
// very many. What would change then is in the rest, which is nil without that. A site that
// is locked is in use.
func (s *site) forget(now time.Time, many bool) (left bool, rest *storedSite) {
	if !s.mu.TryLock() {
		return false, nil
	}
	defer s.mu.Unlock()
	if s.sources > 0 || s.gone {
		return false, nil
	}
	if !s.sched.restsAnd((*resource).forgettable, now) && !(many && s.sched.restsAnd((*resource).expendable, now)) {
		if !many {
			return false, nil
		}
		if rest = s.store(now); rest == nil {
			return false, nil
		}
	}
	s.gone = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return true, rest
}

// ForgetIdle forgets the sites of which nothing is known, and where there are very many
// also other idle sites, whose state is stored. It looks at one of ForgetParts parts of
// the sites. New sites do the same for a few others; ForgetIdle is for times when no new
// sites come.
func (g *Gate) ForgetIdle(now time.Time, part int) {
	sh := &g.shards[part%shards]
	sites, _ := sh.all(false)
	for _, s := range sites {
		sh.mu.Lock()
		sh.forget(now, s, true, g.many)
		sh.mu.Unlock()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.stored.tidy(now.Sub(g.began))
	sh.sites, sh.peak = shrunk(sh.sites, sh.peak)
}

const (
	// mostStoredBytes is the most memory that the stored sites of a shard may take, 192 MiB in
	// all: a million of sites that cool.
	mostStoredBytes = 192 << 20 / shards
	// mostStoredResources is the largest number of resources in use of a stored site. A site with more
	// stays as it is.
	mostStoredResources = 16
	// longestState is the longest state of a meter that is stored.
	longestState = 2048
	// storedSiteBytes and the others are about what a stored site, and each of its resources,
	// take, with their place in a map.
	storedSiteBytes     = 80
	storedResourceBytes = 48
	storedScopeBytes    = 88
)

// storedSite is an idle site in short: what its resources keep back. It does not change, so
// that it may be read without a lock.
type storedSite struct {
	name      string
	resources []storedResource
}

// storedResource is a resource that cools, is in a slow start or has a learned limit.
// Times are since the gate was made.
type storedResource struct {
	cool, ends      time.Duration // of the cooldown and its slow start
	room, cooldowns int32         // of the slow start; no room: there is none
	why             string
	scope           *storedScope // nil: the whole site
}

// storedScope is the limit that a storedResource is of.
type storedScope struct {
	at    Scope
	title string
	state []byte        // of the limit's meter; nil: of a meter that has nothing to remember
	spare time.Duration // when the state is worth nothing any more
}

// store is the site in short; nil: that would lose something. The site is locked.
func (s *site) store(now time.Time) *storedSite {
	if s.sched.held+s.sched.granted > 0 {
		return nil
	}
	var resources []storedResource
	add := func(res *resource, at Scope, made bool) bool {
		item, needed, ok := res.store(now, s.gate.began, made)
		if !needed || !ok {
			return ok
		}
		if at != (Scope{}) {
			if item.scope == nil {
				item.scope = &storedScope{}
			}
			item.scope.at, item.scope.title = Scope{strings.Clone(at.Limit), strings.Clone(at.Key)}, res.title
		}
		resources = append(resources, item)
		return len(resources) <= mostStoredResources
	}
	if !add(s.registry.whole, Scope{}, false) {
		return nil
	}
	for at, e := range s.registry.byScope {
		if e.shared || !add(e.resource, at, e.made) {
			return nil
		}
	}
	return &storedSite{strings.Clone(s.name), append(make([]storedResource, 0, len(resources)), resources...)}
}

// store returns the stored form of a resource. It is not needed if that is nothing, and not ok if it
// cannot be told in short. made says that MeterSource.NewMeter has made the meter.
func (r *resource) store(now, began time.Time, made bool) (item storedResource, needed, ok bool) {
	if r.used() || r.inFlight > 0 || r.waitingBytes > 0 || r.waitlist != nil || r.told > 0 {
		return item, false, false
	}
	if r.cooldown.until.After(now) {
		item.cool, item.why = r.cooldown.until.Sub(began), r.cooldown.reason
	}
	if r.cooldown.recovering(now) {
		item.ends, item.room, item.cooldowns, item.why = r.cooldown.slowStart.ends.Sub(began), int32(r.cooldown.slowStart.allowed), int32(r.cooldown.slowStart.cooldowns), r.cooldown.slowStart.after
	}
	state, spare := r.pending, r.pendingUntil
	switch m, storable := r.meter.(Storable); {
	case r.meter == nil || r.meter.Idle(now):
	case storable && m.Spare(now):
	case storable && made && !r.external:
		state, spare = m.State(), m.SpareAt(now)
		if len(state) == 0 || len(state) > longestState {
			return item, false, false
		}
	default:
		return item, false, false
	}
	if len(state) > 0 && spare.After(now) {
		item.scope = &storedScope{state: state, spare: spare.Sub(began)}
	}
	return item, item.cool > 0 || item.room > 0 || item.scope != nil, true
}

// restore brings a new site to where it was when it was stored.
func (s *site) restore(now time.Time, from *storedSite) {
	began := s.gate.began
	for i := range from.resources {
		storedResource := &from.resources[i]
		if began.Add(storedResource.until()).Before(now) {
			continue
		}
		res := s.registry.resourceAt(storedResource.at())
		if storedResource.scope != nil {
			l := Limit{Title: storedResource.scope.title}
			res.setName(l.label(storedResource.scope.at.Key), l.Title)
			if storedResource.scope.state != nil {
				res.pending, res.pendingUntil = storedResource.scope.state, began.Add(storedResource.scope.spare)
			}
		}
		if storedResource.cool > 0 {
			res.cooldown.until, res.cooldown.reason = began.Add(storedResource.cool), storedResource.why
		}
		if storedResource.room > 0 {
			still := began.Add(storedResource.ends)
			res.cooldown.slowStart = &slowStart{after: storedResource.why, allowed: int(storedResource.room), cooldowns: int(storedResource.cooldowns), latest: still.Add(-quiet), ends: still}
		}
	}
}

// at is the scope of the resource.
func (s *storedResource) at() Scope {
	if s.scope == nil {
		return Scope{}
	}
	return s.scope.at
}

// until returns the time from which forgetting the resource changes nothing.
func (s *storedResource) until() time.Duration {
	if s.scope == nil {
		return max(s.cool, s.ends)
	}
	return max(s.cool, s.ends, s.scope.spare)
}

func (s *storedSite) until() (until time.Duration) {
	for i := range s.resources {
		until = max(until, s.resources[i].until())
	}
	return until
}

// bytes is about the memory that the site takes.
func (s *storedSite) bytes() int {
	n := storedSiteBytes + len(s.name) + storedResourceBytes*len(s.resources)
	for i := range s.resources {
		if scope := s.resources[i].scope; scope != nil {
			n += storedScopeBytes + len(scope.at.Limit) + len(scope.at.Key) + len(scope.title) + len(scope.state)
		}
	}
	return n
}

// visit visits what cools at the site, and its learned limits.
func (s *storedSite) visit(now, began time.Time, visit func(now time.Time, at ResourceInfo)) {
	for i := range s.resources {
		item := &s.resources[i]
		n := ResourceInfo{Site: s.name, At: item.at(), why: item.why}
		if item.cool > now.Sub(began) {
			n.Cooling = began.Add(item.cool)
		}
		if scope := item.scope; scope != nil && scope.spare > now.Sub(began) {
			n.Title, n.State = scope.title, scope.state
		}
		if !n.Cooling.IsZero() || n.State != nil {
			visit(now, n)
		}
	}
}

// storedSites are the stored sites of a shard.
type storedSites struct {
	known map[string]*storedSite // :: name → site
	bytes int                    // that they take
	peak  int                    // how many the map has had
}

// add keeps a site. Where there are too many, one that counts for less long leaves.
func (m *storedSites) add(s *storedSite) {
	if m.known == nil {
		m.known = map[string]*storedSite{}
	}
	for m.bytes += s.bytes(); m.bytes > mostStoredBytes && len(m.known) > 0; {
		var first *storedSite
		seen := 0
		for _, one := range m.known { // of some, in no order
			if first == nil || one.until() < first.until() {
				first = one
			}
			if seen++; seen == 8 {
				break
			}
		}
		m.take(first.name)
	}
	m.known[s.name] = s
	m.peak = max(m.peak, len(m.known))
}

// take answers a site, nil if it is not there, and forgets it.
func (m *storedSites) take(name string) *storedSite {
	s := m.known[name]
	if s != nil {
		delete(m.known, name)
		m.bytes -= s.bytes()
	}
	return s
}

// tidy forgets the sites that do not count any more.
func (m *storedSites) tidy(now time.Duration) {
	for name, s := range m.known {
		if s.until() <= now {
			m.take(name)
		}
	}
	m.known, m.peak = shrunk(m.known, m.peak)
}
