package ledger

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
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
