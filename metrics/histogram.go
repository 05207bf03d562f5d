package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

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
