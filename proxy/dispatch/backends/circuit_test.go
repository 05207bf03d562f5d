package backends

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever happens, an open circuit lets nothing through, a half-open one a single probe,
// and a closed one everything until so many attempts in a row have failed.
func TestACircuitFollowsItsRuleInEveryHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := circuit{most: rapid.IntRange(1, 4).Draw(t, "most"), pause: 10 * time.Second}
		now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
		var running []uint64 // changes at the begin of each attempt
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"begin", "end", "wait"}).Draw(t, "event") {
			case "begin":
				state, probing := c.state(now), c.probing
				may := c.begin(now)
				if want := state == "closed" || state == "half-open" && !probing; may != want {
					t.Fatalf("%s, probing %v: %v", state, probing, may)
				}
				if may {
					running = append(running, c.changes)
				}
			case "end":
				if len(running) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				began, how := running[i], rapid.SampledFrom([]Health{Unknown, Well, Ill}).Draw(t, "how")
				running = append(running[:i], running[i+1:]...)
				before := c
				c.end(began, how, now)
				switch current := began == before.changes; {
				case !current || how == Unknown:
					before.probing = before.probing && !current
					if c != before {
						t.Fatalf("%+v became %+v by an attempt that says nothing", before, c)
					}
				case how == Well && !c.closed():
					t.Fatal("a success did not close it")
				case how == Ill && !before.closed() && c.open(now).IsZero():
					t.Fatal("a probe failed and it is not open")
				case how == Ill && before.closed() && c.closed() != (before.failures+1 < c.most):
					t.Fatalf("%d failures of %d: %s", before.failures+1, c.most, c.state(now))
				}
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "seconds")) * time.Second)
			}
		}
	})
}
