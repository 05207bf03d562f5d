package metrics

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A native histogram of schema 2 has four buckets between a power of two and
// the next, so a quantile is off by a tenth at most.
const (
	schema     = 2
	perOctave  = 1 << schema
	firstPower = -20 // of two, in seconds: below 1 µs is zero
	lastPower  = 12  // more than 68 minutes counts as 68 minutes
	nativeSize = (lastPower - firstPower) * perOctave
)

// bounds are the upper bounds of the classic buckets.
type bounds struct {
	seconds [15]float64
	lengths [15]time.Duration
}

func newBounds(seconds ...float64) *bounds {
	b := &bounds{}
	for i, s := range seconds {
		b.seconds[i], b.lengths[i] = s, time.Duration(s*float64(time.Second))
	}
	return b
}

var (
	// answering is how long a site takes, or abide itself.
	answering = newBounds(.00005, .0002, .001, .005, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	// waiting goes by the windows of limits, which are a quarter of an hour as often
	// as a second.
	waiting = newBounds(.001, .01, .05, .25, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600)
)

// quarters are the bounds of the native buckets inside an octave, scaled so
// that the octave is 1<<32 to 1<<33.
var quarters = func() (out [perOctave - 1]uint64) {
	for i := range out {
		out[i] = uint64(math.Exp2(32 + float64(i+1)/perOctave))
	}
	return out
}()

// histogram is native and classic at once. It is not the library's because it
// has to be emptied into another one without losing what is observed
// meanwhile. The zero value is empty, and for answers.
//
// Observing touches native first and reading reads it last, so what a reader
// sees in the classic buckets it sees in the native ones.
type histogram struct {
	of      *bounds // nil is answering
	zero    atomic.Uint64
	native  [nativeSize]atomic.Uint64
	sum     atomic.Uint64 // in nanoseconds
	classic [len(bounds{}.lengths)]atomic.Uint64
}

func (h *histogram) bounds() *bounds {
	if h.of == nil {
		return answering
	}
	return h.of
}

func (h *histogram) observe(d time.Duration) {
	d = max(d, 0)
	if i := nativeIndex(d); i < 0 {
		h.zero.Add(1)
	} else {
		h.native[i].Add(1)
	}
	h.sum.Add(uint64(d))
	for i, bound := range h.bounds().lengths[:] {
		if d <= bound {
			h.classic[i].Add(1)
			break
		}
	}
}

// nativeIndex finds the bucket of d, -1 for the zero bucket. Bucket i ends at
// 2^(firstPower + (i+1)/perOctave) seconds, inclusive.
func nativeIndex(d time.Duration) int {
	const zero = uint64(time.Second) >> -firstPower // rounded down
	n := uint64(d)
	if n <= zero {
		return -1
	}
	// In units of the zero threshold, as 32.32 fixed point, minus the least
	// there is, because bounds are inclusive.
	const second = uint64(time.Second)
	hi, lo := bits.Mul64(n, 1<<(32-firstPower))
	if hi >= second {
		return nativeSize - 1
	}
	x, rest := bits.Div64(hi, lo, second)
	if rest == 0 {
		x--
	}
	octave := bits.Len64(x) - 33
	if octave < 0 {
		return -1
	}
	if octave >= lastPower-firstPower {
		return nativeSize - 1
	}
	within := x >> octave // 1<<32 to 1<<33
	i := octave * perOctave
	for _, bound := range quarters {
		if within < bound {
			break
		}
		i++
	}
	return i
}

// moveTo empties h into another of the same bounds.
func (h *histogram) moveTo(to *histogram) {
	move(&h.zero, &to.zero)
	for i := range h.native {
		move(&h.native[i], &to.native[i])
	}
	move(&h.sum, &to.sum)
	for i := range h.classic {
		move(&h.classic[i], &to.classic[i])
	}
}

// read is h as Prometheus has it.
func (h *histogram) read() *dto.Histogram {
	out := &dto.Histogram{
		Schema:        ptr(int32(schema)),
		ZeroThreshold: ptr(math.Exp2(firstPower)),
	}
	var below uint64
	upper := &h.bounds().seconds
	for i := range h.classic {
		below += h.classic[i].Load()
		out.Bucket = append(out.Bucket, &dto.Bucket{CumulativeCount: ptr(below), UpperBound: ptr(upper[i])})
	}
	out.SampleSum = ptr(time.Duration(h.sum.Load()).Seconds())
	zero := h.zero.Load()
	count, before, gap := zero, int64(0), int32(firstPower*perOctave+1)
	var span *dto.BucketSpan
	for i := range h.native {
		n := h.native[i].Load()
		if n == 0 {
			gap++
			span = nil
			continue
		}
		if span == nil {
			span = &dto.BucketSpan{Offset: ptr(gap), Length: ptr(uint32(0))}
			out.PositiveSpan = append(out.PositiveSpan, span)
			gap = 0
		}
		*span.Length++
		out.PositiveDelta = append(out.PositiveDelta, int64(n)-before)
		before = int64(n)
		count += n
	}
	if len(out.PositiveSpan) == 0 {
		// Without any span it would not be taken for a native histogram.
		out.PositiveSpan = []*dto.BucketSpan{{Offset: ptr(int32(0)), Length: ptr(uint32(0))}}
	}
	out.ZeroCount, out.SampleCount = ptr(zero), ptr(count)
	return out
}

func (h *histogram) count() uint64 {
	n := h.zero.Load()
	for i := range h.native {
		n += h.native[i].Load()
	}
	return n
}

// single is a histogram without labels as a collector.
type single struct {
	desc *prometheus.Desc
	h    *histogram
}

func (s *single) Describe(to chan<- *prometheus.Desc) { to <- s.desc }
func (s *single) Collect(to chan<- prometheus.Metric) { to <- &reading{s.desc, nil, s.h.read()} }

// reading is a histogram as it was at one time.
type reading struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      *dto.Histogram
}

func (r *reading) Desc() *prometheus.Desc { return r.desc }

func (r *reading) Write(to *dto.Metric) error {
	to.Label, to.Histogram = r.labels, r.h
	return nil
}

// move adds what is in one counter to another and leaves nothing behind.
func move(from, to *atomic.Uint64) {
	if n := from.Swap(0); n > 0 {
		to.Add(n)
	}
}

func ptr[T any](v T) *T { return &v }
