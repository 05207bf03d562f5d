package metrics

import (
	"math"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// HoldCount is how many requests of one priority wait for a site.
type HoldCount struct {
	Site        string
	Priority, N int
}

// BlockedTime is how long a limit has held requests of a site back, in all:
// three that waited for two seconds are six.
type BlockedTime struct {
	Site, Limit string
	Seconds     float64
}

// Holds names who knows how many requests wait, now.
func (m *Metrics) Holds(now func() []HoldCount) { m.queue.holds(now) }

// Blocked names who knows what held requests back since the process began.
// Where a figure falls, its limit was forgotten and has begun again.
func (m *Metrics) Blocked(since func() []BlockedTime) { m.queue.blocked(since) }

// queue is what the queue tells when the metrics are read. Sites that are not
// told apart are "other" here too.
type queue struct {
	sites *sites

	mu      sync.Mutex
	waiting func() []HoldCount
	since   func() []BlockedTime
	seen    map[pair]float64              // :: site, limit → what was said last
	total   map[string]map[string]float64 // :: label of the site → label of the limit → what was counted
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

func (q *queue) Describe(to chan<- *prometheus.Desc) {
	to <- holdsDesc
	to <- blockedDesc
}

// Collect asks with the lock held, so that of two readers at once neither takes
// the older answer for a limit that has begun again. Only readers take it.
func (q *queue) Collect(to chan<- prometheus.Metric) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, n := range q.count() {
		to <- prometheus.MustNewConstMetric(holdsDesc, prometheus.GaugeValue, float64(n), at[0], at[1])
	}
	q.fold()
	for site, limits := range q.total {
		for limit, seconds := range limits {
			to <- prometheus.MustNewConstMetric(blockedDesc, prometheus.CounterValue, seconds, site, limit)
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
			sum[pair{q.sites.told(one.Site), strconv.Itoa(min(max(one.Priority, 0), lowestPriority))}] += one.N
		}
	}
	return sum
}

// fold adds what was blocked since it was asked last. So nothing that is counted
// falls, although the queue forgets sites, and a site that makes room here takes
// along what it has.
func (q *queue) fold() {
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
		if q.sites.told(site) == other && site != other {
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
		q.add(q.sites.told(at[0]), label(at[1]), seconds-before)
	}
	q.seen = said
}

// add counts for a site. A rule has a few limits, but the rules change.
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
