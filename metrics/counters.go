package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// maxChildren bounds the children of a counter with fixed label values, in case a value is
// not fixed.
const maxChildren = 128

// tally has a counter for each key, which is found without a lock. The zero value is empty.
// It is safe for concurrent use.
type tally[K comparable] struct {
	mu    sync.Mutex // held to add a counter
	known atomic.Pointer[map[K]*atomic.Uint64]
}

// all returns the counters. The caller must not change the map.
func (t *tally[K]) all() map[K]*atomic.Uint64 {
	if known := t.known.Load(); known != nil {
		return *known
	}
	return nil
}

func (t *tally[K]) at(key K) *atomic.Uint64 {
	if n := t.all()[key]; n != nil {
		return n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.all()[key]; n != nil {
		return n
	}
	known, n := maps.Clone(t.all()), new(atomic.Uint64)
	if known == nil {
		known = map[K]*atomic.Uint64{}
	}
	known[key] = n
	t.known.Store(&known)
	return n
}

// addTo adds all counts to sums.
func (t *tally[K]) addTo(sums map[K]uint64) {
	for key, n := range t.all() {
		sums[key] += n.Load()
	}
}

// moveTo adds all counts to those of another tally and leaves nothing behind.
func (t *tally[K]) moveTo(to *tally[K]) {
	for key, n := range t.all() {
		if moved := n.Swap(0); moved > 0 {
			to.at(key).Add(moved)
		}
	}
}

// counters is a metric of counters with at most two labels.
type counters struct {
	desc   *prometheus.Desc
	labels int
	tally  tally[pair]
}

func newCounters(name, help string, labels ...string) *counters {
	return &counters{desc: desc(name, help, labels...), labels: len(labels)}
}

// begin has series at zero, so that a rate counts the first one too.
func (c *counters) begin(pairs ...pair) *counters {
	for _, p := range pairs {
		c.more(p, 0)
	}
	return c
}

func (c *counters) inc(p pair) { c.more(p, 1) }

func (c *counters) more(p pair, n uint64) {
	if known := c.tally.all(); known[p] == nil {
		if p = (pair{label(p[0]), label(p[1])}); known[p] == nil && len(known) >= maxChildren {
			p = pair{other, other}
		}
	}
	c.tally.at(p).Add(n)
}

func (c *counters) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

func (c *counters) Collect(to chan<- prometheus.Metric) {
	for p, n := range c.tally.all() {
		to <- counter(c.desc, float64(n.Load()), p[:c.labels]...)
	}
}

// Sums are counters that begin anew together; those that are not used are 0.
type Sums [3]float64

// Growth finds how much counters have grown since the last call. The zero value has seen none.
type Growth[K comparable] struct{ seen map[K]Sums }

// Since returns the growth of each. Counters that are new, or of which one has become less, have begun anew since.
func (g *Growth[K]) Since(now map[K]Sums) map[K]Sums {
	grown := make(map[K]Sums, len(now))
	for key, n := range now {
		before := g.seen[key]
		if n[0] < before[0] || n[1] < before[1] || n[2] < before[2] {
			before = Sums{}
		}
		grown[key] = Sums{n[0] - before[0], n[1] - before[1], n[2] - before[2]}
	}
	g.seen = now
	return grown
}

// namespace begins the name of every series.
const namespace = "abide"

// other is the label of sites, tokens and routes beyond the maximum.
const other = "other"

// maxRoutes bounds the labelled routes of a token, and limits of a site. The rest is
// "other".
const maxRoutes = 64

// maxLabel is longer than any host name.
const maxLabel = 255

// label makes a valid label value of any bytes. A value that is not UTF-8 would make
// Prometheus reject the whole scrape.
func label(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxLabel)], "\uFFFD")
	return strings.ToValidUTF8(s[:min(len(s), maxLabel)], "")
}

// pair is the label values of a child; the second is "" if there is one label.
type pair [2]string

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// describe sends descriptions.
func describe(to chan<- *prometheus.Desc, list ...*prometheus.Desc) {
	for _, one := range list {
		to <- one
	}
}

func counter(d *prometheus.Desc, n float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, n, labels...)
}

// names are the values of a label that are in use, for each of what has such a label.
type names[K comparable] map[K]map[string]bool

// bounded is a label, or "other" if there are too many.
func (n names[K]) bounded(of K, name string) string {
	if n[of] == nil {
		n[of] = map[string]bool{}
	}
	if !n[of][name] && len(n[of]) >= maxRoutes {
		return other
	}
	n[of][name] = true
	return name
}

func gaugeOf(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

var (
	requestsDesc = desc("requests_total", "Requests that were answered, by the site or by abide.", "site", "method", "code")
	bytesDesc    = desc("site_bytes_total", "Bytes on the connections to a site, headers and TLS included: in is from the site.", "site", "direction")
	replaysDesc  = desc("replays_total", "Requests that were sent once more, by why.", "site", "reason")
	refusalsDesc = desc("refusals_total", "Answers of a site that refused a request because of a limit, by what they are about.", "site", "scope")
	unreadDesc   = desc("https_unread_total", "Connections of https (CONNECT) that passed unread, by why: requests inside cannot be counted, and limits are not seen.", "site", "reason")
)

// result is the label of how something ended.
func result(ok bool) string {
	if ok {
		return "ok"
	}
	return "failed"
}
