package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// times are the histograms of a site.
type times struct{ took, waited prometheus.Observer }

func histogramVec(name, help string, bounds []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(histogramOptions(name, help, bounds), []string{"site"})
}

// timesOf returns the site's histograms: its own if there is room, otherwise those of
// "other".
func (s *Site) timesOf() *times {
	if t := s.times.Load(); t != nil {
		return t
	}
	if all := s.of; s == all.other || all.free.Load() > 0 && s.labelled.Load() {
		if t := all.giveTimes(s); t != nil {
			return t
		}
	}
	return s.of.other.timesOf()
}

// giveTimes returns nil if there is no room for histograms of the site, or it has no label.
func (s *sites) giveTimes(site *Site) *times {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := site.times.Load()
	if t == nil && (site == s.other || s.free.Load() > 0 && site.labelled.Load()) {
		t = &times{s.took.WithLabelValues(site.name), s.waited.WithLabelValues(site.name)}
		site.times.Store(t)
		if site != s.other {
			s.free.Add(-1)
		}
	}
	return t
}

// endTimes ends the site's own histograms, so that another site may have some. The caller
// holds mu.
func (s *sites) endTimes(site *Site) {
	if site.times.Swap(nil) != nil {
		s.took.DeleteLabelValues(site.name)
		s.waited.DeleteLabelValues(site.name)
		s.free.Add(1)
	}
}

// idleFor returns the time since the site became idle, as seen by scrapes.
func (s *Site) idleFor(now time.Time) time.Duration {
	sum := uint64(0)
	for _, n := range s.counts.all() {
		sum += n.Load()
	}
	if since := s.idleSince.Load(); since != 0 && s.idleSum.Load() == sum {
		return now.Sub(time.Unix(0, since))
	}
	s.idleSum.Store(sum)
	s.idleSince.Store(now.UnixNano())
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

// histogramOptions are those of a histogram that is both native and classic. The native one
// has four buckets between powers of two, so a quantile is off by at most a tenth; values
// below 1 µs count as zero.
func histogramOptions(name, help string, bounds []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: bounds,
		NativeHistogramBucketFactor: 1.19, NativeHistogramZeroThreshold: 1.0 / (1 << 20),
	}
}

func newHistogram(name, help string, bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(histogramOptions(name, help, bounds))
}

// observe adds a duration; a negative one, after the clock went back, counts as 0.
func observe(h prometheus.Observer, d time.Duration) { h.Observe(max(d, 0).Seconds()) }
