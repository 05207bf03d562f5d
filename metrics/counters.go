package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// maxChildren bounds the children of a counter with fixed label values, in case a value is
// not fixed.
const maxChildren = 128

// counters is a counter with one or two labels whose children are found without a lock. It
// is safe for concurrent use.
type counters struct {
	vec    *prometheus.CounterVec
	labels int
	mu     sync.Mutex // held to add a child
	known  atomic.Pointer[map[pair]prometheus.Counter]
}

func newCounters(name, help string, labels ...string) *counters {
	c := &counters{
		vec: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: name, Help: help,
		}, labels),
		labels: len(labels),
	}
	c.known.Store(&map[pair]prometheus.Counter{})
	return c
}

// begin has series at zero, so that a rate counts the first one too.
func (c *counters) begin(pairs ...pair) *counters {
	for _, p := range pairs {
		c.more(p, 0)
	}
	return c
}

func (c *counters) inc(p pair) { c.more(p, 1) }

func (c *counters) more(p pair, n float64) {
	child, ok := (*c.known.Load())[p]
	if !ok {
		child = c.add(p)
	}
	child.Add(n)
}

func (c *counters) add(p pair) prometheus.Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.known.Load()
	if child, ok := old[p]; ok {
		return child
	}
	if len(old) >= maxChildren {
		return c.child(pair{other, other})
	}
	child := c.child(p)
	known := maps.Clone(old)
	known[p] = child
	c.known.Store(&known)
	return child
}

func (c *counters) child(p pair) prometheus.Counter {
	values := []string{label(p[0]), label(p[1])}
	return c.vec.WithLabelValues(values[:c.labels]...)
}
