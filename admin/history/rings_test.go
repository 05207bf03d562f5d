package history

import (
	"context"
	"fmt"
	"math"
	"slices"
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

func (w *world) sources() Options {
	return Options{
		Sites:   func() []metrics.SiteCount { return w.counts },
		Tokens:  func() status.Tokens { return status.Tokens{Pools: []status.Pool{{Name: "api", Tokens: w.tokens}}} },
		Waiting: func() int { return w.waiting },
	}
}

func TestRatesAndPointsAreThoseOfTheCounters(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Counts: status.Counts{Name: "a.test"}}}}
	r := New(w.sources())
	for second := range 26 {
		r.Take(noon.Add(time.Duration(second) * time.Second))
		w.counts[0].Requests += 4
		w.counts[0].In += 100
		w.waiting = second
	}
	if sum := lastMinute(r, noon.Add(25*time.Second+400*time.Millisecond)); sum != 26*4 {
		t.Errorf("%d requests in the last minute", sum)
	}
	s := r.Snapshot(noon.Add(25*time.Second + 800*time.Millisecond))
	a := s.Sites["a.test"]
	if want := (status.Rate{Requests: 24. / 5, In: 600. / 5}); a.Now != want || s.Total.Now != a.Now {
		t.Errorf("now %+v, total %+v", a.Now, s.Total.Now)
	}
	if n := len(a.Requests); n != Points || float64(a.Requests[n-1]) < a.Now.Requests-0.001 || a.Requests[n-2] != 4 || a.Requests[n-4] != 0 {
		t.Errorf("%d points: %v", n, a.Requests)
	}
	if s.Waiting[Points-1] != 25 || s.Waiting[Points-2] != 18 {
		t.Errorf("waiting: %v", s.Waiting)
	}
	late := noon.Add(time.Hour)
	w.waiting = 0
	if s := r.Snapshot(late); s.Total.Now != (status.Rate{}) || s.Total.Requests != nil || s.Waiting != nil || lastMinute(r, late) != 0 {
		t.Errorf("an hour later: %+v", s.Total)
	}
}

// lastMinute returns the requests of a.test in the last minute.
func lastMinute(r *Recorder, now time.Time) uint64 {
	_, sites := r.Lately(now)
	return sites["a.test"].LastMinute
}

func TestTheLastMinuteForgetsWhatIsOlder(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Counts: status.Counts{Name: "a.test"}}}}
	r := New(w.sources())
	for second := range 100 {
		w.counts[0].Requests += 2
		r.Take(noon.Add(time.Duration(second+1) * time.Second))
	}
	for _, c := range []struct {
		at   time.Duration
		want uint64
	}{{99 * time.Second, 120}, {129 * time.Second, 60}, {158 * time.Second, 2}, {159 * time.Second, 0}, {time.Hour, 0}} {
		if got := lastMinute(r, noon.Add(c.at)); got != c.want {
			t.Errorf("after %v: %d, want %d", c.at, got, c.want)
		}
	}
}

// TestWhatAbideRefusesItselfDoesNotFlow: a crawler that goes on against a quota that is used up is no traffic of the site.
func TestWhatAbideRefusesItselfDoesNotFlow(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Counts: status.Counts{Name: "a.test"}}}}
	r := New(w.sources())
	for second := range 10 {
		r.Take(noon.Add(time.Duration(second) * time.Second))
		w.counts[0].Requests += 5
		w.counts[0].Own += 3
	}
	s := r.Snapshot(noon.Add(9*time.Second + 300*time.Millisecond))
	if a := s.Sites["a.test"].Now; a.Requests <= 0 || math.Abs(a.Own/a.Requests-1.5) > 0.001 || s.Total.Now != a {
		t.Errorf("%+v, total %+v", a, s.Total.Now)
	}
	total, sites := r.Lately(noon.Add(9*time.Second + 400*time.Millisecond))
	if a := sites["a.test"]; a.LastMinute != 50 || a.Rate != s.Total.Now || total != a.Rate {
		t.Errorf("%+v, total %+v", a, total)
	}
}

func TestASiteWhoseCountersBeginAnewHasNoHugeRate(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Counts: status.Counts{Name: "a.test", Requests: 1000}}}}
	r := New(w.sources())
	r.Take(noon)
	w.counts[0].Requests = 30
	r.Take(noon.Add(10 * time.Second))
	if rate := r.Snapshot(noon.Add(10 * time.Second)).Sites["a.test"].Now; rate.Requests != 3 {
		t.Errorf("%+v", rate)
	}
}

func TestALateSampleChangesNoRate(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Counts: status.Counts{Name: "a.test"}}}}
	r := New(w.sources())
	r.Take(noon)
	at := noon
	for _, seconds := range []int{7, 1, 12, 1, 1, 30, 200} {
		at = at.Add(time.Duration(seconds) * time.Second)
		w.counts[0].Requests += 4 * uint64(seconds)
		r.Take(at)
		a := r.Snapshot(at).Sites["a.test"]
		if a.Now.Requests != 4 || len(a.Requests) > 0 && a.Requests[Points-1] != 4 {
			t.Errorf("%v: %v now, %v", at, a.Now, a.Requests)
		}
	}
	if sum := lastMinute(r, at); sum != 59*4 { // the present second has begun only now
		t.Errorf("%d requests in the last minute", sum)
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

func TestEachCountedSiteHasACourseAndTheFirstTokensATimeline(t *testing.T) {
	w := &world{}
	const sites = 10_007
	for i := range sites {
		w.counts = append(w.counts, metrics.SiteCount{Counts: status.Counts{Name: fmt.Sprint(i), Requests: 1}})
	}
	for i := range maxTokens + 7 {
		w.tokens = append(w.tokens, status.Token{Label: fmt.Sprint(i), State: "ready"})
	}
	r := New(w.sources())
	r.Take(noon)
	if s := r.Snapshot(noon); len(s.Sites) != sites || len(s.Tokens) != maxTokens {
		t.Errorf("%d sites, %d tokens", len(s.Sites), len(s.Tokens))
	}
	if _, lately := r.Lately(noon); len(lately) != sites {
		t.Errorf("%d sites in the last minute", len(lately))
	}
}

func TestASampleIsTakenAtEachFullSecondUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		r := New(Options{Waiting: func() int {
			if taken++; time.Now().Nanosecond() != 0 {
				t.Error(time.Now())
			}
			return 0
		}})
		time.Sleep(300 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r.Run(ctx)
		if taken != 10 {
			t.Errorf("%d samples", taken)
		}
	})
}

// TestASeriesHasTheHighestOfEachStep compares a series with a map of all steps.
func TestASeriesHasTheHighestOfEachStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s series
		highest := map[int64]float32{}
		now := noon
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
			n := float32(rapid.IntRange(0, 5).Draw(t, "n"))
			s.highest(now, n)
			highest[stepOf(now, Step)] = max(highest[stepOf(now, Step)], n)
		}
		for i, got := range s.read(now) {
			if want := highest[stepOf(now, Step)-Points+1+int64(i)]; got != want {
				t.Fatalf("point %d is %v, not %v", i, got, want)
			}
		}
	})
}

// TestTheHighestRateDoesNotFallWithinThePeriod: a burst of some seconds is the highest rate for 15 minutes, from the second
// in which it was shown on, and what waited at once, too.
func TestTheHighestRateDoesNotFallWithinThePeriod(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Counts: status.Counts{Name: "a.test"}}}}
	o := w.sources()
	waiting := 0
	o.Waiting = func() int { return waiting }
	r := New(o)
	most, now := 0.0, 0.0
	for second := range 14 * 60 {
		if second >= 3 && second < 8 {
			w.counts[0].Requests += 100
			waiting = 70
		} else {
			waiting = 1
		}
		s := r.Snapshot(noon.Add(time.Duration(second)*time.Second + 700*time.Millisecond))
		if second < 8 {
			continue
		}
		now = max(now, s.Total.Now.Requests)
		highest := float64(slices.Max(append(s.Total.Requests, 0)))
		if highest < most || highest < s.Total.Now.Requests || slices.Max(s.Waiting) != 70 {
			t.Fatalf("second %d: at most %v after %v, %v now, at most %v waited", second, highest, most, s.Total.Now.Requests, slices.Max(s.Waiting))
		}
		most = highest
	}
	if most != 100 || now != 100 {
		t.Errorf("at most %v, %v was shown", most, now)
	}
}

// TestCountsThatMoveToOtherAreNoFlow: a site that made room has added its counts to "other", what abide refused of them, too.
func TestCountsThatMoveToOtherAreNoFlow(t *testing.T) {
	count := func(name string, requests, refused, left uint64) metrics.SiteCount {
		return metrics.SiteCount{Counts: status.Counts{Name: name, Requests: requests}, Own: refused, Left: left}
	}
	w := &world{counts: []metrics.SiteCount{count("other", 10, 0, 0), count("a.test", 0, 0, 0)}}
	r := New(w.sources())
	r.Take(noon)
	w.counts[1] = count("a.test", 300, 100, 50)
	r.Take(noon.Add(time.Second))
	w.counts = []metrics.SiteCount{count("other", 320, 100, 50), count("b.test", 1, 0, 0)}
	s := r.Snapshot(noon.Add(60 * time.Second))
	other := s.Sites["other"].Now
	if other.Requests < 0 || other.Own > 10 || other.Left > 10 || s.Total.Now.Requests < 0 {
		t.Errorf("%+v of %+v", other, s.Total.Now)
	}
}

// TestWhatClientsGiveUpDoesNotFlow: nothing of it came back from the site.
func TestWhatClientsGiveUpDoesNotFlow(t *testing.T) {
	w := &world{counts: []metrics.SiteCount{{Counts: status.Counts{Name: "a.test"}}}}
	r := New(w.sources())
	for second := range 20 {
		r.Take(noon.Add(time.Duration(second) * time.Second))
		w.counts[0].Requests += 5
		w.counts[0].Left += 5
	}
	s := r.Snapshot(noon.Add(19*time.Second + 300*time.Millisecond))
	if s.Total.Now.Requests != 0 || s.Total.Now.Left < 5 || s.Total.Requests != nil {
		t.Errorf("%+v", s.Total)
	}
}
