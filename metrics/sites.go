package metrics

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/abide-proxy/abide/status"
)

// sites are the sites with a label of their own, at most max. It is safe for concurrent
// use.
//
// Every request looks its site up, so that takes no lock. The order of use has a shared
// lock and is exact to max/4 additions of sites only: a site's use is recorded no more
// often.
type sites struct {
	max    int
	other  *Site
	places *histogramSlots
	index  sync.Map      // :: label → *Site
	age    atomic.Uint64 // number of sites added

	mu           sync.Mutex
	order        *simplelru.LRU[string, *Site] // nil: no site has a label
	evictedSites []*Site                       // evicted while mu is held
}

func newSites(maxSites int) *sites {
	s := &sites{max: maxSites, places: newPlaces(maxHistograms)}
	s.other = newSite(other, s.places)
	s.other.times.Store(s.places.rest)
	if maxSites > 0 {
		s.order, _ = simplelru.NewLRU(maxSites, s.evicted) // fails for sizes below 1 only
	}
	return s
}

func (s *sites) find(name string) *Site {
	any, _ := s.index.Load(name)
	site, _ := any.(*Site)
	return site
}

// labelOf is the label of a site, "other" if it has none of its own.
func (s *sites) labelOf(name string) string {
	if name = label(name); s.find(name) == nil {
		return other
	}
	return name
}

func (s *sites) site(name string) *Site {
	if site := s.find(name); site != nil {
		if age := s.age.Load(); age-site.used.Load() >= uint64(s.max+3)/4 {
			s.markUsed(site, age)
		}
		return site
	}
	if s.order == nil || name == other {
		return s.other
	}
	if len(name) > maxLabel || !utf8.ValidString(name) {
		return s.site(label(name))
	}
	return s.add(strings.Clone(name)) // not a piece of a request's buffer
}

// markUsed moves a site to the most recently used end of the order.
func (s *sites) markUsed(site *Site, age uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	site.used.Store(age)
	s.order.Get(site.name)
}

// add adds a site. The replaced site is emptied after the lock is released.
func (s *sites) add(name string) *Site {
	s.mu.Lock()
	site := s.find(name)
	if site == nil {
		site = newSite(name, s.places)
		site.used.Store(s.age.Add(1))
		s.index.Store(name, site)
		s.order.Add(name, site)
	}
	gone := s.evictedSites
	s.evictedSites = nil
	s.mu.Unlock()
	for _, old := range gone {
		old.moveTo(s.other)
	}
	return site
}

// evicted is called by order, while mu is held.
func (s *sites) evicted(name string, site *Site) {
	s.index.Delete(name)
	s.evictedSites = append(s.evictedSites, site)
}

// all lists the present sites by name; "other" first.
func (s *sites) all() []*Site {
	list := []*Site{s.other}
	for _, one := range s.index.Range {
		list = append(list, one.(*Site))
	}
	slices.SortFunc(list[1:], func(a, b *Site) int { return cmp.Compare(a.name, b.name) })
	return list
}

func (s *sites) counts() []SiteCount {
	var list []SiteCount
	for _, one := range s.all() {
		c := one.count()
		if one.successor.Load() != nil || one == s.other && c == (SiteCount{Name: other}) {
			continue
		}
		list = append(list, c)
	}
	return list
}

func (s *sites) Describe(to chan<- *prometheus.Desc) {
	describe(to, requestsDesc, bytesDesc, durationDesc, waitDesc, replaysDesc, refusalsDesc, unreadDesc)
}

// Collect reads "other" first. A site that is replaced meanwhile is then missing once;
// counted twice, the sum would fall afterwards. Idle sites are left out until something
// happens.
func (s *sites) Collect(to chan<- prometheus.Metric) {
	now := time.Now()
	all := s.all()
	shown := all[:0]
	for _, one := range all {
		idle := one.idleFor(now)
		if idle >= slotIdleTime {
			one.releaseTimes()
		}
		if idle < seriesIdleTime || one == s.other {
			shown = append(shown, one)
		}
	}
	var list []prometheus.Metric
	for _, one := range shown {
		list = one.collect(list[:0])
		for _, m := range list {
			to <- m
		}
	}
}

// collect returns nothing for a site that is being emptied, whose counters would fall. A
// counter at zero has no series.
func (s *Site) collect(list []prometheus.Metric) []prometheus.Metric {
	site := &dto.LabelPair{Name: new("site"), Value: &s.name}
	add := func(d *prometheus.Desc, n uint64, labels ...*dto.LabelPair) {
		if n > 0 {
			list = append(list, &counterSnapshot{d, labels, float64(n)})
		}
	}
	s.requests.each(func(method, hundred, rest int, n *atomic.Uint64) {
		add(requestsDesc, n.Load(), codePairs[hundred][rest], methodPairs[method], site)
	})
	add(bytesDesc, s.in.Load(), directionIn, site)
	add(bytesDesc, s.out.Load(), directionOut, site)
	if t := s.times.Load(); t != nil {
		if h := read(t.took); *h.SampleCount > 0 {
			list = append(list, &histogramSnapshot{durationDesc, []*dto.LabelPair{site}, h})
		}
		if h := read(t.waited); *h.SampleCount > 0 {
			list = append(list, &histogramSnapshot{waitDesc, []*dto.LabelPair{site}, h})
		}
	}
	s.replays.each(&replayReasons, func(reason string, n uint64) {
		add(replaysDesc, n, pairOf("reason", reason), site)
	})
	s.refusals.each(&refusalScopes, func(scope string, n uint64) {
		add(refusalsDesc, n, pairOf("scope", scope), site)
	})
	s.unread.each(&unreadReasons, func(reason string, n uint64) {
		add(unreadDesc, n, pairOf("reason", reason), site)
	})
	if s.successor.Load() != nil {
		return nil
	}
	return list
}

// breakers collects the breakers at a scrape. Sites beyond the maximum share the label
// "other", which shows the worst of them.
type breakers struct {
	sites *sites
	now   atomic.Pointer[func() []status.Breaker]
}

var breakerDesc = desc("breaker_state",
	"Breakers that are not closed: 1 is half-open, 2 is open. That of a backend has site/backend as its site.", "site")

func (b *breakers) Describe(to chan<- *prometheus.Desc) { to <- breakerDesc }

func (b *breakers) Collect(to chan<- prometheus.Metric) {
	now := b.now.Load()
	if now == nil {
		return
	}
	worst := map[string]float64{} // :: label → state
	for _, one := range (*now)() {
		if state := breakerStates[one.State]; state > 0 {
			at := b.label(one)
			worst[at] = max(worst[at], state)
		}
	}
	for at, state := range worst {
		to <- gaugeOf(breakerDesc, state, at)
	}
}

var breakerStates = map[string]float64{"half-open": 1, "open": 2}

// label has at most as many values as configured backends for each labelled site.
func (b *breakers) label(breaker status.Breaker) string {
	site := b.sites.labelOf(breaker.Site)
	if breaker.Backend == "" || site == other {
		return site
	}
	return label(site + "/" + breaker.Backend)
}
