package sites

import (
	"testing"
	"time"
)

// TestARouteIsUnlikeOthersIfItAloneIsRefused, although others are accepted between: the more seldom it is asked for, the
// sooner. A route of which nearly all requests are says nothing.
func TestARouteIsUnlikeOthersIfItAloneIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of        int // one request in so many is of the route
		other     bool
		suspected bool
		wanted    int // refusals until that is proved; 0: never
	}{{4, false, true, 3}, {8, false, true, 2}, {2, false, false, 5}, {1, false, false, 0}, {4, true, true, 0}} {
		var a answers
		now, proved := noon, 0
		for n := 1; n <= 10 && proved == 0; n++ {
			for i := range 40 * c.of {
				now = now.Add(time.Millisecond)
				a.add(now, now, []string{"search", "items"}[min(i%c.of, 1)], "", "")
			}
			now = now.Add(time.Second)
			a.refused(now, now, "search", "")
			if n == 1 && a.ofRoute(unlikeAtFirst) != c.suspected {
				t.Errorf("one in %d: suspected at first: %v", c.of, !c.suspected)
			}
			if a.ofRoute(unlikeFor) {
				proved = n
			}
			if c.other {
				a.refused(now, now, "items", "")
			}
		}
		if proved != c.wanted {
			t.Errorf("one in %d, others refused: %v: proved by %d refusals, not %d", c.of, c.other, proved, c.wanted)
		}
	}
}
