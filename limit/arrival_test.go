package limit_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// A server's bucket fills again from when requests arrive, which is some time after
// they were let go.
func TestABucketIsKeptWheneverRequestsArrive(t *testing.T) {
	for _, as := range kindsWith(func(t limit.Traits) bool { return t.Burst }) {
		t.Run(string(as), rapid.MakeCheck(func(t *rapid.T) { testArrivals(t, as) }))
	}
}

func testArrivals(t *rapid.T, as limit.As) {
	amount := rapid.Int64Range(1, 200).Draw(t, "amount")
	window := time.Duration(rapid.Int64Range(200, 120_000).Draw(t, "window")) * time.Millisecond
	burst := rapid.Int64Range(2, 50).Draw(t, "burst")
	m, err := limit.New(limit.Spec{As: as, Amount: amount, Window: window, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	each := window / time.Duration(amount)
	margin := min(max(window/128, 5*time.Millisecond), window/8, time.Duration(burst-1)*each)
	now := began
	var arrivals []time.Time
	for range rapid.IntRange(1, 200).Draw(t, "requests") {
		if rapid.IntRange(0, 9).Draw(t, "pause") == 0 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Duration(burst)*each)).Draw(t, "idle")))
		}
		if at, _ := m.When(now, 1); at.After(now) {
			now = at
		}
		m.Take(now, 1)
		arrivals = append(arrivals, now.Add(time.Duration(rapid.Int64Range(0, int64(margin)).Draw(t, "way"))))
	}
	slices.SortFunc(arrivals, time.Time.Compare)
	tokens, last := float64(burst), began
	for i, at := range arrivals {
		tokens = min(float64(burst), tokens+at.Sub(last).Seconds()*float64(amount)/window.Seconds())
		last = at
		// It counts in floating point, as the meter does.
		if tokens--; tokens < -1e-4 {
			t.Fatalf("request %d of %d is refused: %v tokens", i, len(arrivals), tokens+1)
		}
	}
}
