package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

// counterSnapshot is a prometheus.Metric: a counter at one time. Its labels are sorted by name and shared by
// many counters, so that a scrape of many sites formats few.
type counterSnapshot struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

func (c *counterSnapshot) Desc() *prometheus.Desc { return c.desc }

func (c *counterSnapshot) Write(to *dto.Metric) error {
	to.Label, to.Counter = c.labels, &dto.Counter{Value: &c.value}
	return nil
}

// move adds what is in one counter to another and leaves nothing behind.
func move(from, to *atomic.Uint64) {
	if n := from.Swap(0); n > 0 {
		to.Add(n)
	}
}

func pairOf(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: new(name), Value: new(value)}
}

var (
	directionIn, directionOut = pairOf("direction", "in"), pairOf("direction", "out")

	methodPairs = func() (all [len(methods)]*dto.LabelPair) {
		for i, method := range methods {
			all[i] = pairOf("method", method)
		}
		return all
	}()
	codePairs = func() (all [6][100]*dto.LabelPair) {
		for hundred := range all {
			for rest := range all[hundred] {
				all[hundred][rest] = pairOf("code", codeLabel(hundred, rest))
			}
		}
		return all
	}()
)

// words are the fixed values of a label; any other value counts as "other".
type words [6]string

var (
	replayReasons = words{"refused", "unavailable", "connection", "gateway", "verified"}
	refusalScopes = words{"site", "route", "backend"}
	unreadReasons = words{"auto", "unlisted", "none", "excluded", "refused", "constrained"}
)

// wordCounts are counters by words. The zero value is empty.
type wordCounts [len(words{}) + 1]atomic.Uint64

func (c *wordCounts) at(all *words, word string) *atomic.Uint64 {
	for i, one := range all {
		if one == word && word != "" {
			return &c[i]
		}
	}
	return &c[len(all)]
}

// each calls do for every used counter.
func (c *wordCounts) each(all *words, do func(word string, n uint64)) {
	for i := range c {
		word := other
		if i < len(all) {
			word = all[i]
		}
		if n := c[i].Load(); n > 0 {
			do(word, n)
		}
	}
}

func (c *wordCounts) moveTo(to *wordCounts) {
	for i := range c {
		move(&c[i], &to[i])
	}
}

// recent counts events by the second, for the last minute. The zero value is empty. It
// is safe for concurrent use.
type recent struct {
	seconds [64]atomic.Uint64 // :: Unix second modulo 64 → that second in the upper half, events in the lower
}

// add counts an event.
func (r *recent) add(now time.Time) {
	second := uint64(uint32(now.Unix()))
	at := &r.seconds[second%64]
	for {
		old := at.Load()
		next := old + 1
		if old>>32 != second {
			next = second<<32 | 1
		}
		if at.CompareAndSwap(old, next) {
			return
		}
	}
}

// lastMinute is the number of events in the last 60 seconds.
func (r *recent) lastMinute(now time.Time) (sum uint64) {
	second := uint64(uint32(now.Unix()))
	for i := range r.seconds {
		if word := r.seconds[i].Load(); second-word>>32 < 60 {
			sum += word & (1<<32 - 1)
		}
	}
	return sum
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

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// names are the values of a label that are in use.
type names map[string]bool

// label is the label of a name, "other" if there are too many.
func (n names) label(name string) string {
	name = label(name)
	if !n[name] && len(n) >= maxRoutes {
		return other
	}
	n[name] = true
	return name
}

func gaugeOf(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

var (
	requestsDesc = desc("requests_total", "Requests that were answered, by the site or by abide.", "site", "method", "code")
	bytesDesc    = desc("site_bytes_total", "Bytes on the connections to a site, headers and TLS included: in is from the site.", "site", "direction")
	durationDesc = desc("upstream_duration_seconds", "How long a site took to answer.", "site")
	waitDesc     = desc("queue_wait_seconds", "How long requests were held before they could go.", "site")
	replaysDesc  = desc("replays_total", "Requests that were sent once more, by why.", "site", "reason")
	refusalsDesc = desc("refusals_total", "Answers of a site that refused a request because of a limit, by what they are about.", "site", "scope")
	unreadDesc   = desc("https_unread_total", "Connections of https (CONNECT) that passed unread, by why: requests inside cannot be counted, and limits are not seen.", "site", "reason")
)
