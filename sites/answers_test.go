package sites

import (
	"fmt"
	"testing"
	"time"
)

// TestALimitOfAllTokensIsFound: each is refused although it has waited, while others succeed.
func TestALimitOfAllTokensIsFound(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{true, false} {
		var c answers
		found := false
		for i := range 20 {
			now, budget := noon.Add(time.Duration(i)*time.Minute), []string{"a", "c"}[i%2]
			c.refused(now, now.Add(-time.Second), "", budget)
			c.add(now.Add(time.Second), now.Add(time.Second), "", "b", "")
			if !together {
				c.add(now.Add(time.Second), now.Add(time.Second), "", budget, "") // its own limit has more again
			}
			found, _ = c.refused(now.Add(3*time.Second), now.Add(2*time.Second), "", budget)
		}
		if found != together {
			t.Errorf("one limit of all: %v, found: %v", together, found)
		}
	}
}

// TestOneBudgetAloneSaysNothingOfTheOthers, however often it is refused while others succeed.
func TestOneBudgetAloneSaysNothingOfTheOthers(t *testing.T) {
	t.Parallel()
	var c answers
	for i := range 20 {
		now := noon.Add(time.Duration(i) * time.Minute)
		c.add(now, now, "", "b", "")
		if all, _ := c.refused(now.Add(2*time.Second), now.Add(time.Second), "", "a"); all {
			t.Fatalf("after %d refusals of one budget the limit is taken for one of all", i+1)
		}
	}
}

// TestBudgetsAreBounded however many are refused.
func TestBudgetsAreBounded(t *testing.T) {
	t.Parallel()
	var a answers
	for i := range 3 * mostNames {
		budget := fmt.Sprint(i)
		a.refused(noon, noon, budget, budget)
		a.add(noon, noon, budget, budget, budget)
	}
	if len(a.budgets) > mostNames || len(a.routes) > mostNames || len(a.origins) > mostNames {
		t.Errorf("%d budgets and %d routes", len(a.budgets), len(a.routes))
	}
}

// TestURLsThatAreAskedForOnceAreNoRoutesWithLimits: a limit of the site may have met any of them, but not the one rare route
// beside a frequent one.
func TestURLsThatAreAskedForOnceAreNoRoutesWithLimits(t *testing.T) {
	t.Parallel()
	for frequent, alone := range map[string]bool{"": false, "/p": true} {
		var a answers
		for i := range 20 {
			route := frequent
			if route == "" {
				route = fmt.Sprint("/article-", i)
			}
			a.add(noon, noon, route, "", "")
		}
		a.refused(noon, noon, "/article-20", "")
		if got := a.ofRoute(unlikeAtFirst); got != alone {
			t.Errorf("beside %q: the route has a limit of its own: %v", frequent, got)
		}
	}
}
