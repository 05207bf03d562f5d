package ledger

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// TestALongerLimitIsCountedSinceItWasEmpty: refusals of a short limit between say nothing of a longer one.
func TestALongerLimitIsCountedSinceItWasEmpty(t *testing.T) {
	t.Parallel()
	e := sinceBegin(0, 0, 0)
	e = e.add(episode{recovery: minute, empty: 10 * second, total: 60})
	for n := range int64(5) {
		e = e.add(episode{recovery: second, empty: (70 + n) * second, total: 70 + float64(n)})
	}
	for recovery, want := range map[int64]float64{second: 74, 30 * second: 60, 50 * second: 60, 80 * second: 60, hour: 0} {
		if got := e.like(recovery).total; got != want {
			t.Errorf("a recovery of %d s is counted since %v requests, and not %v", recovery/second, got, want)
		}
	}
}

// TestEpisodesAreFewAndInOrder: each recovery is shorter than the one before, and the beginning stays.
func TestEpisodesAreFewAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := sinceBegin(0, 0, 0)
		for _, recovery := range rapid.SliceOfN(rapid.Int64Range(0, hour), 0, 100).Draw(t, "recoveries") {
			e = e.add(episode{recovery: recovery})
			if got := e.like(recovery); got.recovery < recovery*2/3 || e.last().recovery != recovery {
				t.Fatalf("%d is like %d, and the last is %d", recovery, got.recovery, e.last().recovery)
			}
		}
		falls := slices.IsSortedFunc(e, func(a, b episode) int { return int(b.recovery - a.recovery) })
		if !falls || len(e) > mostEpisodes || e[0].empty != 0 {
			t.Fatalf("%v", e)
		}
	})
}

// TestPausesBeforeABurstAreNoPartOfAWindow: two requests 25 s apart, then 10 at once, of which 5 s allow no more.
func TestPausesBeforeABurstAreNoPartOfAWindow(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		var starts Starts
		latest := seconds(0)
		for i := range int64(12) {
			at := seconds(float64(min(i, 2)) * 25)
			starts = starts.Add(Start{At: at, Before: i}, latest)
			latest = at
		}
		p := NewHiddenRate(History{Accepted: 12, Lasted: 50 * time.Second, Starts: starts})
		refused, again := seconds(50.2), seconds(55)
		r := Refusal{Sent: seconds(50.1)}
		if named {
			r.RetryAt = again
		}
		p.Refused(refused, r)
		for at, _ := p.When(refused, 1); at.Before(again); at, _ = p.When(at, 1) {
			p.Take(at, 1)
			p.Refused(at, Refusal{Sent: at})
			p.Done(at, at, 1, limit.Refused)
		}
		at, _ := p.When(again, 1)
		p.Take(at, 1)
		p.Done(at.Add(time.Second/10), at, 1, limit.Success)
		if rate := p.Rate(); rate < 0.8 || rate > 2.5 {
			t.Errorf("named %v: %.2f requests a second, where 2 are allowed", named, rate)
		}
	}
}

// TestStartsAreFewAndOfHigherRates: from each start to the next, requests come faster than before it.
func TestStartsAreFewAndOfHigherRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Starts
		at, latest := seconds(0), seconds(0)
		for i, gap := range rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 100).Draw(t, "gaps") {
			at = at.Add(time.Duration(gap * float64(time.Second)))
			s = s.Add(Start{At: at, Before: int64(i)}, latest)
			latest = at
		}
		for i := 2; i < len(s); i++ {
			if s[i-2].rate(s[i-1]) >= s[i-1].rate(s[i]) {
				t.Fatalf("%v", s)
			}
		}
		if len(s) > mostStarts || s[0].Before != 0 {
			t.Fatalf("%v", s)
		}
	})
}
