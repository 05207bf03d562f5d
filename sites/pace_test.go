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

// TestOthersThatAreAcceptedRightAfterARefusalAreUnderAnotherLimit: three searches in 40 ms, the next one is refused, and then items at 50 a
// second: more than a limit of all accepts that has refused just then.
func TestOthersThatAreAcceptedRightAfterARefusalAreUnderAnotherLimit(t *testing.T) {
	t.Parallel()
	for sentBefore, want := range map[bool]bool{false: true, true: false} { // what was sent before the refusal says nothing
		var a answers
		at := noon
		for range 3 {
			a.add(at, at, "search", "", "")
			at = at.Add(20 * time.Millisecond)
		}
		a.pace.refuse(at, "search", &a.all)
		sent := at
		for range 40 {
			at = at.Add(20 * time.Millisecond)
			if !sentBefore {
				sent = at
			}
			a.add(at, sent, "items", "", "")
		}
		if a.pace.outruns() != want {
			t.Errorf("items that were sent before the refusal (%v) show another limit: %v", sentBefore, a.pace.outruns())
		}
	}
}

// TestASiteThatHasRefusedRefusesEachRoute: what is refused before the site accepts anything again is refused by the limit of all.
func TestASiteThatHasRefusedRefusesEachRoute(t *testing.T) {
	t.Parallel()
	var a answers
	a.add(noon, noon, "search", "", "")
	a.pace.refuse(noon.Add(time.Second), "search", &a.all)
	if a.pace.closed() {
		t.Error("after a refusal of one route all are closed")
	}
	a.pace.refuse(noon.Add(2*time.Second), "", &a.all)
	if !a.pace.closed() {
		t.Error("after a refusal by the limit of all, not all are closed")
	}
	at := noon.Add(3 * time.Second)
	if a.add(at, at, "items", "", ""); a.pace.closed() {
		t.Error("after a success all are closed")
	}
}
