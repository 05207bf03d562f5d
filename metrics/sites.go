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

// sites are the sites that are counted apart. At most max of them have a label of their own: what the others count is
// in the series of "other". It is safe for concurrent use.
//
// Every request looks its site up, so that takes no lock. The order of use has a shared
// lock and is exact to max/4 new labels only: the use of a site with a label is recorded no more
// often.
type sites struct {
	max    int
	other  *Site         // of sites that are not counted apart
	index  sync.Map      // :: name → *Site
	age    atomic.Uint64 // number of labels given
	took   *prometheus.HistogramVec
	waited *prometheus.HistogramVec
	free   atomic.Int64 // sites that may still have histograms of their own

	mu      sync.Mutex                    // held also to give and to end labels and histograms
	counted *simplelru.LRU[string, *Site] // all
	order   *simplelru.LRU[string, *Site] // those with a label
}

func newSites(maxSites int) *sites {
	const mostCounted = 10_000 // the number of sites that are counted apart, if not more of them have a label
	s := &sites{
		max:    max(maxSites, 1),
		took:   histogramVec("upstream_duration_seconds", "How long a site took to answer.", answerBuckets),
		waited: histogramVec("queue_wait_seconds", "How long requests were held before they could go.", waitBuckets),
	}
	s.free.Store(maxHistograms)
	s.other = &Site{name: other, of: s}
	s.order, _ = simplelru.NewLRU(s.max, s.unlabelled) // fails for sizes below 1 only
	s.counted, _ = simplelru.NewLRU(max(s.max, mostCounted), s.evicted)
	return s
}

func (s *sites) find(name string) *Site {
	any, _ := s.index.Load(name)
	site, _ := any.(*Site)
	return site
}

// labelOf is the label of a site, which it gets where no other site loses its own by that, and "other" if it has none.
func (s *sites) labelOf(name string) string {
	name = label(name)
	s.mu.Lock()
	full := s.order.Len() >= s.max
	s.mu.Unlock()
	if site := s.find(name); full && (site == nil || !site.labelled.Load()) {
		return other
	}
	return s.site(name).name
}

func (s *sites) site(name string) *Site {
	if site := s.find(name); site != nil {
		if now := time.Now().Unix(); site.again.Load() != now {
			site.again.Store(now)
		}
		if age := s.age.Load(); !site.labelled.Load() || age-site.used.Load() >= uint64(s.max+3)/4 {
			s.markUsed(site, age)
		}
		return site
	}
	if name == other {
		return s.other
	}
	if len(name) > maxLabel || !utf8.ValidString(name) {
		return s.site(label(name))
	}
	return s.add(strings.Clone(name)) // not a piece of a request's buffer
}

// markUsed moves a site to the most recently used end of the order, and gives it a label if it has none.
func (s *sites) markUsed(site *Site, age uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.counted.Get(site.name); {
	case site.replaced.Load(): // meanwhile
	case !site.labelled.Load():
		s.giveLabel(site)
	default:
		site.used.Store(age)
		s.order.Get(site.name)
	}
}

// add adds a site.
func (s *sites) add(name string) *Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	site := s.find(name)
	if site == nil {
		site = &Site{name: name, of: s}
		s.giveLabel(site)
		s.index.Store(name, site)
		s.counted.Add(name, site)
	}
	return site
}

// giveLabel gives a site a label. Its series begin at 0, as those of "other" have what it has counted. The caller holds mu.
func (s *sites) giveLabel(site *Site) {
	site.folded = map[series]uint64{}
	site.counts.addTo(site.folded)
	site.used.Store(s.age.Add(1))
	site.labelled.Store(true)
	s.spare(time.Now())
	s.order.Add(site.name, site)
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
		s.counted.Get(name)
	}
}

// unlabelled ends the histograms of a site that has lost its label. order calls it while mu is held.
func (s *sites) unlabelled(_ string, site *Site) {
	site.labelled.Store(false)
	s.endTimes(site)
}

// evicted moves what a site has counted to "other", as the site is not counted apart any more. counted calls it while mu
// is held.
func (s *sites) evicted(name string, site *Site) {
	s.order.Remove(name)
	s.index.Delete(name)
	site.replaced.Store(true)
	site.moveOn()
}

// all lists the sites that are counted apart by name; "other" first.
func (s *sites) all() []*Site {
	list := []*Site{s.other}
	for _, one := range s.index.Range {
		list = append(list, one.(*Site))
	}
	slices.SortFunc(list[1:], func(a, b *Site) int { return cmp.Compare(a.name, b.name) })
	return list
}

// counts holds mu, so that what a site has counted is not missing while it moves to "other".
func (s *sites) counts() (list []SiteCount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all() {
		if c := one.snapshot(); c != (SiteCount{Counts: status.Counts{Name: other}}) {
			list = append(list, c)
		}
	}
	return list
}

func (s *sites) Describe(to chan<- *prometheus.Desc) {
	describe(to, requestsDesc, bytesDesc, replaysDesc, refusalsDesc, unreadDesc)
}

// Collect leaves out idle sites until something happens.
func (s *sites) Collect(to chan<- prometheus.Metric) {
	for _, one := range s.collect(time.Now()) {
		to <- one
	}
}

// collect holds mu, so that no site gets or loses its label between the counts of it and those of "other", which would
// fall afterwards.
func (s *sites) collect(now time.Time) (list []prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := map[series]uint64{}
	s.other.counts.addTo(rest)
	for _, one := range s.index.Range {
		site := one.(*Site)
		if !site.labelled.Load() {
			site.counts.addTo(rest)
			continue
		}
		counted := map[series]uint64{}
		site.counts.addTo(counted)
		for at, n := range site.folded {
			rest[at] += n
			counted[at] -= n
		}
		idle := site.idleFor(now)
		if idle >= slotIdleTime {
			s.endTimes(site)
		}
		if idle < seriesIdleTime {
			list = append(list, seriesOf(&site.name, counted)...)
		}
	}
	return append(list, seriesOf(&s.other.name, rest)...)
}

// seriesOf are the series of the counts of a site. A counter at zero has none.
func seriesOf(name *string, counts map[series]uint64) (list []prometheus.Metric) {
	site := &dto.LabelPair{Name: new("site"), Value: name}
	for at, n := range counts {
		if n > 0 {
			list = append(list, &counterSnapshot{groups[at.group].desc, at.labels(site), float64(n)})
		}
	}
	return list
}

var breakerDesc = desc("breaker_state",
	"Sites that fail: 0 is asked although each request fails, of 1 the breaker is half-open, of 2 open. A backend has site/backend as its site.", "site")

var breakerStates = map[string]float64{status.Failing: 0, "half-open": 1, "open": 2}

// newBreakers collects breakers. Sites beyond the maximum share the label "other", which
// shows the worst of them.
func newBreakers(sites *sites) *asked[[]status.Breaker] {
	return &asked[[]status.Breaker]{descs: []*prometheus.Desc{breakerDesc}, collect: func(now []status.Breaker, to chan<- prometheus.Metric) {
		worst := map[string]float64{} // :: label → state
		for _, one := range now {
			if state, fails := breakerStates[one.State]; fails {
				at := sites.labelOf(one.Site)
				if one.Backend != "" && at != other { // at most as many as are configured for each labelled site
					at = label(at + "/" + one.Backend)
				}
				worst[at] = max(worst[at], state)
			}
		}
		for at, state := range worst {
			to <- gaugeOf(breakerDesc, state, at)
		}
	}}
}
