package samples

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// world is what is observed.
type world struct {
	counts  []metrics.SiteCount
	tokens  []status.Token
	waiting int
}

func (w *world) sources() Sources {
	return Sources{
		Sites:   func() []metrics.SiteCount { return w.counts },
		Tokens:  func() status.Tokens { return status.Tokens{Pools: []status.Pool{{Name: "api", Tokens: w.tokens}}} },
		Waiting: func() int { return w.waiting },
	}
}

func TestRatesAndPointsAreThoseOfTheCounters(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Name: "a.test", Requests: 1_000_000}}}
	r := New(w.sources())
	for second := range 25 {
		r.Take(noon.Add(time.Duration(second) * time.Second))
		w.counts[0].Requests += 4
		w.counts[0].In += 100
		w.waiting = second
	}
	s := r.Snapshot(noon.Add(25 * time.Second))
	a := s.Sites["a.test"]
	if a.Now != (Rate{Requests: 4, In: 100}) || s.Total.Now != a.Now {
		t.Errorf("now %+v, total %+v", a.Now, s.Total.Now)
	}
	// What was counted before the first sample is in no point, and the present step is not over.
	if n := len(a.Requests); n != Points || a.Requests[n-1] != 4 || math.Abs(float64(a.Requests[n-2])-3.6) > 0.001 || a.Requests[n-3] != 0 {
		t.Errorf("%d points: %v", n, a.Requests)
	}
	if s.Waiting[Points-1] != 18 || s.Waiting[Points-2] != 8 {
		t.Errorf("waiting: %v", s.Waiting)
	}
	late := r.Snapshot(noon.Add(time.Hour))
	if late.Total.Now != (Rate{}) || late.Total.Requests != nil || late.Waiting != nil {
		t.Errorf("an hour later: %+v", late.Total)
	}
}

func TestASiteWhoseCountersBeginAnewHasNoHugeRate(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Name: "a.test", Requests: 1000}}}
	r := New(w.sources())
	r.Take(noon)
	w.counts[0].Requests = 3
	r.Take(noon.Add(time.Second))
	if rate := r.Snapshot(noon.Add(time.Second)).Sites["a.test"].Now; rate.Requests != 3 {
		t.Errorf("%+v", rate)
	}
}

func TestATimelineHasTheStatesOfTheLastMinutes(t *testing.T) {
	w := &world{tokens: []status.Token{{Label: "one", State: "ready"}}}
	r := New(w.sources())
	at := noon
	step := func() {
		r.Take(at)
		at = at.Add(Step)
	}
	step()
	w.tokens[0].Uses = 5
	step()
	w.tokens[0].State = "cooling"
	step()
	w.tokens[0].State, w.tokens[0].Routes = "ready", []status.Paused{{Route: "GET /x"}}
	step()
	at = at.Add(Step) // nobody looked
	w.tokens[0].State = "quarantined"
	r.Take(at)
	l := r.Snapshot(at).Tokens[TokenKey{"api", "one"}]
	if got := fmt.Sprint(l[Points-7:]); got != fmt.Sprint([]State{Unknown, Ready, Used, Cooling, Partly, Unknown, Quarantined}) {
		t.Error(got)
	}
	w.tokens[0].State, w.tokens[0].Routes = "ready", nil
	r.Take(at.Add(time.Second)) // of the same step: the worse state is kept
	if l := r.Snapshot(at.Add(time.Second)).Tokens[TokenKey{"api", "one"}]; l[Points-1] != Quarantined {
		t.Error(l[Points-1])
	}
	w.tokens = nil
	r.Take(at.Add(2 * Step))
	if n := len(r.Snapshot(at.Add(2 * Step)).Tokens); n != 0 {
		t.Errorf("%d tokens that have left", n)
	}
}

func TestMoreSitesAndTokensThanTheBoundsHaveNoCourse(t *testing.T) {
	w := &world{}
	for i := range maxSites + 7 {
		w.counts = append(w.counts, metrics.SiteCount{Name: fmt.Sprint(i)})
	}
	for i := range maxTokens + 7 {
		w.tokens = append(w.tokens, status.Token{Label: fmt.Sprint(i), State: "ready"})
	}
	r := New(w.sources())
	r.Take(noon)
	if s := r.Snapshot(noon); len(s.Sites) != maxSites || len(s.Tokens) != maxTokens {
		t.Errorf("%d sites, %d tokens", len(s.Sites), len(s.Tokens))
	}
}

func TestASampleIsTakenEachSecondUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		r := New(Sources{Sites: func() []metrics.SiteCount { return nil }, Tokens: func() status.Tokens { return status.Tokens{} }, Waiting: func() int { taken++; return 0 }})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		r.Run(ctx)
		if taken != 11 {
			t.Errorf("%d samples", taken)
		}
	})
}

// TestASeriesIsTheSumOfWhatWasAdded compares a series with a map of all steps.
func TestASeriesIsTheSumOfWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s series
		sums := map[int64]float32{}
		now := noon
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
			n := float32(rapid.IntRange(0, 5).Draw(t, "more"))
			s.more(now, n)
			sums[stepOf(now)] += n
		}
		for i, got := range s.read(now, 1) {
			if want := sums[stepOf(now)-Points+1+int64(i)]; got != want {
				t.Fatalf("point %d is %v, not %v", i, got, want)
			}
		}
	})
}
