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
	index  sync.Map      // :: label → *Site
	age    atomic.Uint64 // number of sites added
	took   *prometheus.HistogramVec
	waited *prometheus.HistogramVec
	free   atomic.Int64 // sites that may still have histograms of their own

	mu    sync.Mutex                    // held also to give and to end histograms
	order *simplelru.LRU[string, *Site] // nil: no site has a label
}

func newSites(maxSites int) *sites {
	s := &sites{
		max:    maxSites,
		took:   histogramVec("upstream_duration_seconds", "How long a site took to answer.", answerBuckets),
		waited: histogramVec("queue_wait_seconds", "How long requests were held before they could go.", waitBuckets),
	}
	s.free.Store(maxHistograms)
	s.other = &Site{name: other, of: s}
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

// labelOf is the label of a site, which it gets while there is room, and "other" if it has none of its own.
func (s *sites) labelOf(name string) string {
	if name = label(name); s.find(name) == nil && !s.room() {
		return other
	}
	return s.site(name).name
}

// room reports whether one more site gets a label without the loss of another's.
func (s *sites) room() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order != nil && s.order.Len() < s.max
}

func (s *sites) site(name string) *Site {
	if site := s.find(name); site != nil {
		if now := time.Now().Unix(); site.again.Load() != now {
			site.again.Store(now)
		}
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

// add adds a site.
func (s *sites) add(name string) *Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	site := s.find(name)
	if site == nil {
		site = &Site{name: name, of: s}
		site.used.Store(s.age.Add(1))
		s.index.Store(name, site)
		s.spare(time.Now())
		s.order.Add(name, site)
	}
	return site
}

const (
	// sparedFor is the time for which a site that was asked more than once is not replaced by others, as far as mostSpared
	// sites at a time go.
	sparedFor  = 15 * time.Minute
	mostSpared = 64
)

// spare moves sites that were asked again lately away from the end of the order at which sites are replaced: a thousand
// sites that are asked once each take the label of no site where requests wait. The caller holds mu.
func (s *sites) spare(now time.Time) {
	for range min(mostSpared, s.order.Len()) {
		name, site, _ := s.order.GetOldest()
		if s.order.Len() < s.max || now.Unix()-site.again.Load() > int64(sparedFor.Seconds()) {
			return
		}
		s.order.Get(name)
	}
}

// evicted ends the histograms of a replaced site, whose other counts move to "other". order
// calls it while mu is held.
func (s *sites) evicted(name string, site *Site) {
	s.index.Delete(name)
	site.replaced.Store(true)
	s.endTimes(site)
	site.moveOn()
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
		c := one.snapshot()
		if one.replaced.Load() || one == s.other && c == (SiteCount{Counts: status.Counts{Name: other}}) {
			continue
		}
		list = append(list, c)
	}
	return list
}

func (s *sites) Describe(to chan<- *prometheus.Desc) {
	describe(to, requestsDesc, bytesDesc, replaysDesc, refusalsDesc, unreadDesc)
}

// Collect reads "other" first. A site that is replaced meanwhile is then missing once;
// counted twice, the sum would fall afterwards. Idle sites are left out until something
// happens.
func (s *sites) Collect(to chan<- prometheus.Metric) {
	now := time.Now()
	for _, site := range s.all() {
		idle := site.idleFor(now)
		if idle >= slotIdleTime && site != s.other {
			s.mu.Lock()
			s.endTimes(site)
			s.mu.Unlock()
		}
		if idle < seriesIdleTime || site == s.other {
			for _, one := range site.collect() {
				to <- one
			}
		}
	}
}

// collect returns nothing for a site that is being emptied, whose counters would fall. A
// counter at zero has no series.
func (s *Site) collect() (list []prometheus.Metric) {
	site := &dto.LabelPair{Name: new("site"), Value: &s.name}
	for at, n := range s.counts.all() {
		if n := n.Load(); n > 0 {
			list = append(list, &counterSnapshot{groups[at.group].desc, at.labels(site), float64(n)})
		}
	}
	if s.replaced.Load() {
		return nil
	}
	return list
}

var breakerDesc = desc("breaker_state",
	"Breakers that are not closed: 1 is half-open, 2 is open. That of a backend has site/backend as its site.", "site")

var breakerStates = map[string]float64{"half-open": 1, "open": 2}

// newBreakers collects breakers. Sites beyond the maximum share the label "other", which
// shows the worst of them.
func newBreakers(sites *sites) *asked[[]status.Breaker] {
	return &asked[[]status.Breaker]{descs: []*prometheus.Desc{breakerDesc}, collect: func(now []status.Breaker, to chan<- prometheus.Metric) {
		worst := map[string]float64{} // :: label → state
		for _, one := range now {
			if state := breakerStates[one.State]; state > 0 {
				at := sites.breakerLabel(one)
				worst[at] = max(worst[at], state)
			}
		}
		for at, state := range worst {
			to <- gaugeOf(breakerDesc, state, at)
		}
	}}
}

// breakerLabel has at most as many values as configured backends for each labelled site.
func (s *sites) breakerLabel(breaker status.Breaker) string {
	site := s.labelOf(breaker.Site)
	if breaker.Backend == "" || site == other {
		return site
	}
	return label(site + "/" + breaker.Backend)
}
