package top

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/status"
)

var begun = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// counted are the counters of an abide with one site so many seconds after it began.
func counted(after float64, requests uint64) counts {
	item := status.Counts{Name: "api.test", Requests: requests, In: 100 * requests, Out: 10 * requests}
	return counts{at: begun.Add(seconds(after)), total: item, sites: map[string]status.Counts{"api.test": item}}
}

func TestARateIsTheAverageOfTheLastSeconds(t *testing.T) {
	var h history
	for i, requests := range []uint64{0, 10, 10, 30, 30, 50, 50, 50} {
		h = h.add(counted(float64(i), requests))
	}
	// Of the 5 seconds from the third to the eighth: 40 requests.
	if got, want := h.of("api.test"), (rates{8, 800, 80}); got != want || h.total() != want {
		t.Errorf("%v and %v in all, want %v", got, h.total(), want)
	}
}

func TestASiteThatIsNewHasCountedFromZero(t *testing.T) {
	h := history{}.add(counts{at: begun}).add(counted(2, 6))
	if got := h.of("api.test").requests; got != 3 {
		t.Errorf("%v requests per second, want 3", got)
	}
	// Where not all sites were listed, the site may have been there before.
	h = history{}.add(counts{at: begun, some: true}).add(counted(2, 6))
	if got := h.of("api.test").requests; got != 0 {
		t.Errorf("%v requests per second, want 0", got)
	}
	if got := h.add(counted(4, 16)).of("api.test").requests; got != 5 {
		t.Errorf("%v requests per second, want 5", got)
	}
}

func TestACounterThatBecameLessHasNoRate(t *testing.T) {
	h := history{}.add(counted(0, 6)).add(counted(1, 2))
	if got := h.of("api.test"); got != (rates{}) {
		t.Errorf("%v", got)
	}
	if got := h.of("other.test"); got != (rates{}) {
		t.Errorf("%v for a site that is not there", got)
	}
}

// A history is short and keeps rateSpan, and its rate is what was counted by the time.
func TestAHistoryIsBoundedAndItsRateIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history
		now, n := 0.0, uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "samples") {
			now += rapid.Float64Range(0.01, 20).Draw(t, "seconds")
			n += rapid.Uint64Range(0, 1e6).Draw(t, "requests")
			h = h.add(counted(now, n))
			if len(h) > mostCounts {
				t.Fatalf("%d counts", len(h))
			}
			if len(h) < 2 {
				continue
			}
			first, last := h[0], h[len(h)-1]
			if len(h) > 2 && last.at.Sub(h[1].at) >= rateSpan {
				t.Fatalf("counts of %v ago are kept, and of %v ago", last.at.Sub(first.at), last.at.Sub(h[1].at))
			}
			want := float64(n - first.total.Requests)
			if got := h.total().requests * last.at.Sub(first.at).Seconds(); math.Abs(got-want) > 1e-6*(1+want) {
				t.Fatalf("%v requests, want %v", got, want)
			}
		}
	})
}
