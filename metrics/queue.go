package metrics

import (
	"math"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/abide-proxy/abide/status"
)

// asked is a collector of what a function returns at a scrape. The function is called with
// the lock held, so that of two concurrent scrapes neither uses older values for counts that
// have begun again. Only scrapes take the lock.
type asked[T any] struct {
	descs   []*prometheus.Desc
	collect func(now T, to chan<- prometheus.Metric)

	mu  sync.Mutex
	now func() T // nil: nothing is collected
}

// Ask sets the function.
func (a *asked[T]) Ask(now func() T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = now
}

func (a *asked[T]) Describe(to chan<- *prometheus.Desc) { describe(to, a.descs...) }

func (a *asked[T]) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now != nil {
		a.collect(a.now(), to)
	}
}

// askedCount collects a gauge.
func askedCount(d *prometheus.Desc) *asked[int] {
	return &asked[int]{descs: []*prometheus.Desc{d}, collect: func(n int, to chan<- prometheus.Metric) { to <- gaugeOf(d, float64(n)) }}
}

var (
	holdsDesc    = desc("queue_holds", "Requests that wait, by priority: 0 is the most urgent.", "site", "priority")
	blockedDesc  = desc("queue_blocked_seconds_total", "How long a limit held requests back: seconds times requests.", "site", "limit")
	observedDesc = desc("observed_wait_seconds_total", "How long a limit would have held requests back with mode: enforce: seconds times requests.", "site", "limit")
)

const lowestPriority = 7

func newHolds(sites *sites) *asked[map[status.HeldCount]int] {
	return &asked[map[status.HeldCount]int]{descs: []*prometheus.Desc{holdsDesc}, collect: func(now map[status.HeldCount]int, to chan<- prometheus.Metric) {
		sum := map[pair]int{}
		for of, n := range now {
			sum[pair{sites.labelOf(of.Site), strconv.Itoa(min(max(of.Priority, 0), lowestPriority))}] += n
		}
		for at, n := range sum {
			to <- gaugeOf(holdsDesc, float64(n), at[0], at[1])
		}
	}}
}

// blockedSums sums the times that limits held requests. Sites beyond the maximum are "other".
type blockedSums struct {
	asked[[]status.BlockedTime]
	sites  *sites
	seen   Growth[pair]     // :: site, limit
	total  map[pair]float64 // :: labels of both → sum
	limits names[string]    // :: label of the site. A rule has few limits, but rules change
}

func newBlocked(sites *sites, d *prometheus.Desc) *blockedSums {
	b := &blockedSums{sites: sites, total: map[pair]float64{}, limits: names[string]{}}
	b.descs = []*prometheus.Desc{d}
	b.collect = func(now []status.BlockedTime, to chan<- prometheus.Metric) {
		b.addSince(now)
		for at, seconds := range b.total {
			to <- counter(d, seconds, at[0], at[1])
		}
	}
	return b
}

// addSince adds what was blocked since the last scrape. So no series falls, although the
// queue forgets sites, and the series of a replaced site ends.
func (b *blockedSums) addSince(now []status.BlockedTime) {
	said := map[pair]Sums{}
	for _, one := range now {
		if one.Seconds > 0 && one.Seconds < math.MaxFloat64 { // not NaN either
			said[pair{one.Site, one.Limit}] = Sums{said[pair{one.Site, one.Limit}][0] + one.Seconds}
		}
	}
	for at, seconds := range b.total {
		if b.sites.labelOf(at[0]) == other && at[0] != other {
			delete(b.total, at)
			delete(b.limits, at[0])
			b.total[pair{other, b.limits.bounded(other, at[1])}] += seconds
		}
	}
	for at, n := range b.seen.Since(said) {
		site := b.sites.labelOf(at[0])
		b.total[pair{site, b.limits.bounded(site, label(at[1]))}] += n[0]
	}
}
