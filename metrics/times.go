package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	// maxHistograms bounds the sites with histograms of their own: a site's histograms are
	// 36 lines, and all its other series are a few.
	maxHistograms = 100
	// slotIdleTime is the time that a site must be idle before another may take its
	// histograms, and seriesIdleTime the time before a scrape leaves its series out.
	slotIdleTime   = 10 * time.Minute
	seriesIdleTime = time.Hour
)

// times are the histograms of a site, or those shared by all sites without.
type times struct{ took, waited prometheus.Histogram }

func newTimes() *times {
	return &times{
		took:   newHistogram("upstream_duration_seconds", "", answerBuckets),
		waited: newHistogram("queue_wait_seconds", "", waitBuckets),
	}
}

// histogramSlots counts the sites with histograms of their own. It is safe for concurrent
// use.
type histogramSlots struct {
	rest *times // shared by all other sites
	free atomic.Int64
}

func newPlaces(most int) *histogramSlots {
	p := &histogramSlots{rest: newTimes()}
	p.free.Store(int64(most))
	return p
}

// timesOf returns the site's histograms: its own if there is a slot, otherwise the shared
// ones.
func (s *Site) timesOf() *times {
	p := s.slots
	for s.successor.Load() == nil {
		if t := s.times.Load(); t != nil {
			return t // maybe made by a concurrent request
		}
		n := p.free.Load()
		if n <= 0 {
			break
		}
		if !p.free.CompareAndSwap(n, n-1) {
			continue
		}
		t := newTimes()
		if !s.times.CompareAndSwap(nil, t) {
			p.free.Add(1)
			continue
		}
		if s.successor.Load() != nil { // the site was replaced meanwhile, before it had histograms
			s.releaseTimes()
		}
		return t
	}
	if t := s.times.Load(); t != nil {
		return t
	}
	return p.rest
}

// releaseTimes ends the site's own histograms, so that another site may have some.
func (s *Site) releaseTimes() {
	if t := s.times.Load(); t != nil && t != s.slots.rest && s.times.CompareAndSwap(t, nil) {
		s.slots.free.Add(1)
	}
}

// idleState tells how long a site has been idle, as seen by scrapes.
type idleState struct {
	sum   atomic.Uint64 // sum of all counters at the last change
	since atomic.Int64  // time of that change in nanoseconds since 1970; 0: no scrape yet
}

// idleFor returns the time since the site became idle.
func (s *Site) idleFor(now time.Time) time.Duration {
	sum := s.in.Load() + s.out.Load() + s.requests.sum()
	for i := range s.unread {
		sum += s.unread[i].Load()
	}
	if since := s.idle.since.Load(); since != 0 && s.idle.sum.Load() == sum {
		return now.Sub(time.Unix(0, since))
	}
	s.idle.sum.Store(sum)
	s.idle.since.Store(now.UnixNano())
	return 0
}

var (
	// answerBuckets are the upper bounds of buckets, in seconds, for the time of a site's
	// answer and of abide itself.
	answerBuckets = []float64{.00005, .0002, .001, .005, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	// waitBuckets are the upper bounds for the time that requests are held. Windows of
	// limits last from a second to hours.
	waitBuckets = []float64{.001, .01, .05, .25, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600}
)

// newHistogram makes a histogram that is both native and classic. The native one has four
// buckets between powers of two, so a quantile is off by at most a tenth; values below 1 µs
// count as zero.
func newHistogram(name, help string, bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: bounds,
		NativeHistogramBucketFactor: 1.19, NativeHistogramZeroThreshold: 1.0 / (1 << 20),
	})
}

// observe adds a duration; a negative one, after the clock went back, counts as 0.
func observe(h prometheus.Histogram, d time.Duration) { h.Observe(max(d, 0).Seconds()) }

// read is a snapshot of a histogram.
func read(h prometheus.Metric) *dto.Histogram {
	var m dto.Metric
	_ = h.Write(&m) // never fails
	return m.Histogram
}

// histogramSnapshot is a site's histogram at one time.
type histogramSnapshot struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      *dto.Histogram
}

func (r *histogramSnapshot) Desc() *prometheus.Desc { return r.desc }

func (r *histogramSnapshot) Write(to *dto.Metric) error {
	to.Label, to.Histogram = r.labels, r.h
	return nil
}
