package metrics

import (
	"io"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"
)

func TestADurationFallsIntoTheBucketThatHoldsIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(70*time.Minute)).Draw(rt, "d"))
		if rapid.Bool().Draw(rt, "short") {
			d /= 100_000
		}
		i := nativeIndex(d)
		upper := math.Exp2(firstPower + float64(i+1)/perOctave)
		lower := math.Exp2(firstPower + float64(i)/perOctave)
		s := d.Seconds()
		const blur = 1e-9 // bounds are not representable
		switch {
		case i == -1:
			if s > math.Exp2(firstPower)*(1+blur) {
				rt.Errorf("%v counts as zero", d)
			}
		case i == nativeSize-1:
			if s <= lower*(1-blur) {
				rt.Errorf("%v counts as the longest", d)
			}
		case s <= lower*(1-blur) || s > upper*(1+blur):
			rt.Errorf("%v is in (%v, %v]", d, lower, upper)
		}
	})
}

func TestExtremeDurationsAreCounted(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{-1, 0, 1, math.MaxInt64, 4096 * time.Second, 4097 * time.Second} {
		h.observe(d)
	}
	r := h.read()
	if r.GetSampleCount() != 6 || r.GetZeroCount() != 3 {
		t.Errorf("%v", r)
	}
}

// native is the count of a native histogram's buckets by their upper bounds.
func native(h *dto.Histogram) (sum uint64, bounds map[int32]int64) {
	bounds = map[int32]int64{}
	sum = h.GetZeroCount()
	at, n, delta := int32(0), int64(0), 0
	for _, s := range h.PositiveSpan {
		at += s.GetOffset()
		for range s.GetLength() {
			n += h.PositiveDelta[delta]
			delta++
			bounds[at] = n
			sum += uint64(n)
			at++
		}
	}
	return sum, bounds
}

func TestAHistogramIsNativeAndClassicAndBothAgree(t *testing.T) {
	m := New(1)
	for _, d := range []time.Duration{0, 30 * time.Microsecond, time.Second, time.Second, 2 * time.Second, time.Hour} {
		m.Overhead(d)
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	var h *dto.Histogram
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if family.GetName() == "abide_overhead_seconds" {
			h = family.Metric[0].Histogram
		}
	}
	if h == nil {
		t.Fatal("no histogram")
	}
	sum, bounds := native(h)
	if sum != 6 || h.GetSampleCount() != 6 || h.GetSampleSum() != 3604.00003 {
		t.Errorf("%d observations in buckets, %d in all, %v s", sum, h.GetSampleCount(), h.GetSampleSum())
	}
	// In schema 2, bucket i ends at 2^(i/4): 1 s is in bucket 0, 2 s in bucket 4.
	if bounds[0] != 2 || bounds[4] != 1 || h.GetSchema() != 2 || h.GetZeroCount() != 1 {
		t.Errorf("buckets %v, schema %d", bounds, h.GetSchema())
	}
	for _, b := range h.Bucket {
		want := map[bool]uint64{true: 5, false: 2}[b.GetUpperBound() >= 2]
		if b.GetUpperBound() == 1 || b.GetUpperBound() == 2 {
			want = 4
		}
		if b.GetUpperBound() > .00002 && b.GetCumulativeCount() != want {
			t.Errorf("%d at most %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
}

func TestMovingAHistogramKeepsEveryObservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var a, b, whole histogram
		for _, ms := range rapid.SliceOf(rapid.Int64Range(0, 1_000_000)).Draw(rt, "ms") {
			d := time.Duration(ms) * time.Millisecond
			whole.observe(d)
			if ms%2 == 0 {
				a.observe(d)
			} else {
				b.observe(d)
			}
		}
		a.moveTo(&b)
		if b.read().String() != whole.read().String() || a.count() != 0 {
			rt.Errorf("%v\nis not\n%v", b.read(), whole.read())
		}
	})
}
