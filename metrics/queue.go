package metrics

import (
	"math"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// HoldCount counts the requests of one priority that wait for a site.
type HoldCount struct {
	Site        string
	Priority, N int
}

// BlockedTime sums the time that a limit has held requests of a site: three requests for two
// seconds are six.
type BlockedTime struct {
	Site, Limit string
	Seconds     float64
}

// queue collects the queue's numbers at a scrape. Sites beyond the maximum are "other".
type queue struct {
	sites *sites

	mu      sync.Mutex
	waiting func() []HoldCount
	since   func() []BlockedTime
	seen    map[pair]float64              // :: site, limit → last value
	total   map[string]map[string]float64 // :: label of the site → label of the limit → sum
}

func newQueue(s *sites) *queue {
	return &queue{sites: s, seen: map[pair]float64{}, total: map[string]map[string]float64{}}
}

func (q *queue) holds(now func() []HoldCount) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = now
}

func (q *queue) blocked(since func() []BlockedTime) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = since
}

var (
	holdsDesc   = desc("queue_holds", "Requests that wait, by priority: 0 is the most urgent.", "site", "priority")
	blockedDesc = desc("queue_blocked_seconds_total", "How long a limit held requests back: seconds times requests.", "site", "limit")
)

func (q *queue) Describe(to chan<- *prometheus.Desc) { describe(to, holdsDesc, blockedDesc) }

// Collect calls the functions with the lock held, so that of two concurrent scrapes neither
// uses an older value for a limit that has begun again. Only scrapes take the lock.
func (q *queue) Collect(to chan<- prometheus.Metric) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, n := range q.count() {
		to <- gaugeOf(holdsDesc, float64(n), at[0], at[1])
	}
	q.collectTimes(to, blockedDesc)
}

// collectTimes collects the times that limits held requests. The caller holds the lock.
func (q *queue) collectTimes(to chan<- prometheus.Metric, d *prometheus.Desc) {
	q.addSince()
	for site, limits := range q.total {
		for limit, seconds := range limits {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, seconds, site, limit)
		}
	}
}

const lowestPriority = 7

func (q *queue) count() map[pair]int {
	if q.waiting == nil {
		return nil
	}
	sum := map[pair]int{}
	for _, one := range q.waiting() {
		if one.N > 0 {
			sum[pair{q.sites.labelOf(one.Site), strconv.Itoa(min(max(one.Priority, 0), lowestPriority))}] += one.N
		}
	}
	return sum
}

// addSince adds what was blocked since the last scrape. So no series falls, although the
// queue forgets sites, and the series of a replaced site ends.
func (q *queue) addSince() {
	if q.since == nil {
		return
	}
	said := map[pair]float64{}
	for _, one := range q.since() {
		if one.Seconds > 0 && one.Seconds < math.MaxFloat64 { // not NaN either
			said[pair{one.Site, one.Limit}] += one.Seconds
		}
	}
	for site, limits := range q.total {
		if q.sites.labelOf(site) == other && site != other {
			delete(q.total, site)
			for limit, seconds := range limits {
				q.add(other, limit, seconds)
			}
		}
	}
	for at, seconds := range said {
		before := q.seen[at]
		if before > seconds {
			before = 0
		}
		q.add(q.sites.labelOf(at[0]), label(at[1]), seconds-before)
	}
	q.seen = said
}

// add adds seconds for a site. A rule has few limits, but rules change.
func (q *queue) add(site, limit string, seconds float64) {
	limits := q.total[site]
	if limits == nil {
		limits = map[string]float64{}
		q.total[site] = limits
	}
	if _, known := limits[limit]; !known && len(limits) >= maxRoutes {
		limit = other
	}
	limits[limit] += seconds
}

// observed collects the times that mode: observe would have held requests.
type observed struct{ *queue }

var observedDesc = desc("observed_wait_seconds_total", "How long a limit would have held requests back with mode: enforce: seconds times requests.", "site", "limit")

func (o observed) Describe(to chan<- *prometheus.Desc) { to <- observedDesc }

func (o observed) Collect(to chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.collectTimes(to, observedDesc)
}
