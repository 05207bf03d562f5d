package sites

import (
	"testing"
	"time"
)

// TestWhatOthersHaveAcceptedTellsWhoseALimitIs: after refusals at 5 requests in 5 s, others that are accepted ten times as fast are not under
// that limit; a refusal after few requests is not by a limit of all.
func TestWhatOthersHaveAcceptedTellsWhoseALimitIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gap     time.Duration // between requests of another route
		many    int
		outruns bool
		short   bool
	}{{time.Second, 30, false, false}, {100 * time.Millisecond, 10, false, false}, {100 * time.Millisecond, 30, true, false}, {time.Second, 0, false, true}} {
		var a answers
		for n := range 5 {
			at := noon.Add(time.Duration(n) * 20 * time.Millisecond)
			a.add(at, at, "search", "", "")
		}
		a.pace.refuse(noon.Add(time.Second), "search", &a.all)
		now := noon.Add(5 * time.Second)
		a.add(now, now, "search", "", "")
		for range c.many {
			now = now.Add(c.gap)
			a.add(now, now, "items", "", "")
		}
		if a.pace.outruns() != c.outruns || a.pace.short(now.Add(4*time.Second)) != c.short {
			t.Errorf("%d each %v: outruns %v, short %v", c.many, c.gap, a.pace.outruns(), a.pace.short(now))
		}
	}
}

// TestWhatIsAcceptedOfSeveralBudgetsSaysNothingOfOneLimit: with several tokens few requests after the refusal of another token are not few for
// its limit.
func TestWhatIsAcceptedOfSeveralBudgetsSaysNothingOfOneLimit(t *testing.T) {
	t.Parallel()
	var a answers
	for n := range 10 {
		at := noon.Add(time.Duration(n) * 20 * time.Millisecond)
		a.add(at, at, "search", []string{"one", "two"}[n%2], "")
	}
	a.pace.refuse(noon.Add(time.Second), "search", &a.all)
	for n := range 40 {
		at := noon.Add(5*time.Second + time.Duration(n)*100*time.Millisecond)
		a.add(at, at, []string{"search", "items"}[min(n, 1)], "two", "")
		if a.pace.outruns() || a.pace.short(at.Add(time.Minute)) {
			t.Fatalf("after %d requests: outruns %v, short %v", n+1, a.pace.outruns(), a.pace.short(at.Add(time.Minute)))
		}
	}
}
