package metrics

import (
	"sync"
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

// mergeableHistogram is a histogram to which another's counts can be added. Both have the
// same bounds. It is safe for concurrent use.
type mergeableHistogram struct {
	prometheus.Histogram
	desc *prometheus.Desc // with the label site

	mu    sync.Mutex
	added *dto.Histogram // nil: none
}

// add adds the counts of another histogram, which must not change any more.
func (h *mergeableHistogram) add(other *dto.Histogram) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.added = h.plus(other)
}

// plus is the sum of added and other.
func (h *mergeableHistogram) plus(other *dto.Histogram) *dto.Histogram {
	if h.added == nil {
		return other
	}
	native := nativeBuckets(h.added)
	for i, n := range nativeBuckets(other) {
		native[i] += n
	}
	sum := read(prometheus.MustNewConstNativeHistogram(h.desc,
		h.added.GetSampleCount()+other.GetSampleCount(), h.added.GetSampleSum()+other.GetSampleSum(), native, nil,
		h.added.GetZeroCount()+other.GetZeroCount(), other.GetSchema(), other.GetZeroThreshold(), other.GetCreatedTimestamp().AsTime(), ""))
	for i, b := range other.Bucket {
		sum.Bucket = append(sum.Bucket, &dto.Bucket{
			UpperBound: b.UpperBound, CumulativeCount: new(b.GetCumulativeCount() + h.added.Bucket[i].GetCumulativeCount()),
		})
	}
	return sum
}

// read is a snapshot, including added counts.
func (h *mergeableHistogram) read() *dto.Histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plus(read(h.Histogram))
}

// nativeBuckets are the counts of a native histogram by the index of their buckets.
func nativeBuckets(h *dto.Histogram) map[int]int64 {
	buckets := map[int]int64{}
	at, n, deltas := 0, int64(0), h.PositiveDelta
	for _, span := range h.PositiveSpan {
		at += int(span.GetOffset())
		for range span.GetLength() {
			n += deltas[0]
			buckets[at], deltas, at = n, deltas[1:], at+1
		}
	}
	return buckets
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
