package metrics

import (
	"io"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

func TestExtremeDurationsAreCounted(t *testing.T) {
	h := newHistogram("a", "", answerBuckets)
	for _, d := range []time.Duration{-1, 0, 1, math.MaxInt64, 4096 * time.Second, 4097 * time.Second} {
		observe(h, d)
	}
	if r := read(h); r.GetSampleCount() != 6 || r.GetZeroCount() != 3 {
		t.Errorf("%v", r)
	}
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
	bounds, sum := nativeBuckets(h), int64(h.GetZeroCount())
	for _, n := range bounds {
		sum += n
	}
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

// read is a snapshot of a histogram.
func read(h prometheus.Metric) *dto.Histogram {
	var m dto.Metric
	_ = h.Write(&m) // never fails
	return m.Histogram
}
