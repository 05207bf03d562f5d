package metrics

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// other is the label of what is not told apart.
const other = "other"

// maxLabel is longer than any host name.
const maxLabel = 255

// label makes any bytes a label value. Prometheus refuses what is not UTF-8,
// and with it all other metrics.
func label(s string) string {
	if len(s) > maxLabel {
		s = s[:maxLabel]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxLabel {
		return s
	}
	end := maxLabel
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// sites are the sites that are told apart, at most max.
//
// Every request asks for its site, so finding one takes the lock of one shard
// of the index, and for reading only. The order of use is kept behind a lock
// that all share, and is exact to max/4 arrivals of new sites only: more often
// than that a site's use is not written down.
type sites struct {
	max    int
	other  *Site
	places *places
	seed   maphash.Seed
	index  [64]shard
	age    atomic.Uint64 // sites that have arrived

	mu    sync.Mutex
	order *simplelru.LRU[string, *Site] // nil when none is told apart
	gone  []*Site                       // evicted while mu is held
}

type shard struct {
	mu    sync.RWMutex
	sites map[string]*Site // :: label → where it is counted
}

func newSites(maxSites int) *sites {
	s := &sites{max: maxSites, seed: maphash.MakeSeed(), places: newPlaces(mostTimes)}
	s.other = newSite(other, s.places)
	s.other.times.Store(s.places.rest)
	for i := range s.index {
		s.index[i].sites = map[string]*Site{}
	}
	if maxSites > 0 {
		s.order, _ = simplelru.NewLRU(maxSites, s.evicted) // fails for sizes below 1 only
	}
	return s
}

func (s *sites) shard(name string) *shard {
	return &s.index[maphash.String(s.seed, name)%uint64(len(s.index))]
}

func (s *sites) find(name string) *Site {
	shard := s.shard(name)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.sites[name]
}

// told is the label of a site, "other" if it is not told apart.
func (s *sites) told(name string) string {
	if name = label(name); s.find(name) == nil {
		return other
	}
	return name
}

func (s *sites) site(name string) *Site {
	if one := s.find(name); one != nil {
		if age := s.age.Load(); age-one.used.Load() >= uint64(s.max+3)/4 {
			s.use(one, age)
		}
		return one
	}
	if s.order == nil || name == other {
		return s.other
	}
	if len(name) > maxLabel || !utf8.ValidString(name) {
		return s.site(label(name))
	}
	return s.arrive(strings.Clone(name)) // not a piece of a request's buffer
}

// use moves a site to the safe end of the order.
func (s *sites) use(one *Site, age uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.used.Store(age)
	s.order.Get(one.name)
}

// arrive adds a site. The one that leaves for it is emptied after the lock.
func (s *sites) arrive(name string) *Site {
	s.mu.Lock()
	one := s.find(name)
	if one == nil {
		one = newSite(name, s.places)
		one.used.Store(s.age.Add(1))
		shard := s.shard(name)
		shard.mu.Lock()
		shard.sites[name] = one
		shard.mu.Unlock()
		s.order.Add(name, one)
	}
	gone := s.gone
	s.gone = nil
	s.mu.Unlock()
	for _, old := range gone {
		old.makeRoom(s.other)
	}
	return one
}

// evicted is called by the order, under s.mu.
func (s *sites) evicted(name string, one *Site) {
	shard := s.shard(name)
	shard.mu.Lock()
	delete(shard.sites, name)
	shard.mu.Unlock()
	s.gone = append(s.gone, one)
}

// all are the sites there are now, by name; "other" first.
func (s *sites) all() []*Site {
	list := []*Site{s.other}
	for i := range s.index {
		shard := &s.index[i]
		shard.mu.RLock()
		for _, one := range shard.sites {
			list = append(list, one)
		}
		shard.mu.RUnlock()
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

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	requestsDesc = desc("requests_total", "Requests that were answered, by the site or by abide.", "site", "method", "code")
	bytesDesc    = desc("site_bytes_total", "Bytes on the connections to a site, headers and TLS included: in is from the site.", "site", "direction")
	durationDesc = desc("upstream_duration_seconds", "How long a site took to answer.", "site")
	waitDesc     = desc("queue_wait_seconds", "How long requests were held before they could go.", "site")
	replaysDesc  = desc("replays_total", "Requests that were sent once more, by why.", "site", "reason")
	refusalsDesc = desc("refusals_total", "Answers of a site that refused a request because of a limit, by what they are about.", "site", "scope")
	unreadDesc   = desc("https_unread_total", "Connections of https (CONNECT) that passed unread, by why: requests inside cannot be counted, and limits are not seen.", "site", "reason")
	overheadDesc = desc("overhead_seconds", "Time that a request spent in abide itself.")
)

func (s *sites) Describe(to chan<- *prometheus.Desc) {
	to <- requestsDesc
	to <- bytesDesc
	to <- durationDesc
	to <- waitDesc
	to <- replaysDesc
	to <- refusalsDesc
	to <- unreadDesc
}

// Collect reads "other" first. A site that makes room meanwhile is then
// missing once; counted twice, it would look as if the sum had fallen after.
// Series of sites at which nothing happens for long are left out, and are as they
// were when something does.
func (s *sites) Collect(to chan<- prometheus.Metric) {
	now := time.Now()
	all := s.all()
	shown := all[:0]
	for _, one := range all {
		idle := one.idleFor(now)
		if idle >= timesRest {
			one.giveUpTimes()
		}
		if idle < seriesRest || one == s.other {
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

// collect is nothing for a site that is being emptied: it would have counters
// that run backwards. A counter without a series is zero.
func (s *Site) collect(list []prometheus.Metric) []prometheus.Metric {
	site := &dto.LabelPair{Name: ptr("site"), Value: &s.name}
	add := func(d *prometheus.Desc, n uint64, labels ...*dto.LabelPair) {
		if n > 0 {
			list = append(list, &count{d, labels, float64(n)})
		}
	}
	s.requests.each(func(method, hundred, rest int, n *atomic.Uint64) {
		add(requestsDesc, n.Load(), codePair(hundred, rest), methodPairs[method], site)
	})
	add(bytesDesc, s.in.Load(), directionIn, site)
	add(bytesDesc, s.out.Load(), directionOut, site)
	if t := s.times.Load(); t != nil {
		if h := t.took.read(); *h.SampleCount > 0 {
			list = append(list, &reading{durationDesc, []*dto.LabelPair{site}, h})
		}
		if h := t.waited.read(); *h.SampleCount > 0 {
			list = append(list, &reading{waitDesc, []*dto.LabelPair{site}, h})
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

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
