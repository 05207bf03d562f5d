package sites

import (
	"fmt"
	"strings"
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
// beside a frequent one. Many names below one node become one route, which counts what was accepted of them before.
func TestURLsThatAreAskedForOnceAreNoRoutesWithLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		accepted string // %d is the number of the request
		many     string // the route of later ones, once there are many names
		refused  string
		rare     int // requests of what is refused, before the others
		alone    bool
	}{
		{"GET /article-%d", "", "GET /article-20", 0, false},
		{"GET /p", "", "GET /article-20", 0, true},
		{"GET /article-%d", "GET /*", "GET /*", 0, false},
		{"GET /u%d/article-%d", "GET /*/*", "GET /*/*", 0, false},
		{"GET /article-%d", "", "GET /search", 2, true},
		{"GET /article-%d", "GET /*", "GET /a/search", 2, true},
	} {
		var a answers
		for range c.rare {
			a.add(noon, noon, c.refused, "", "")
		}
		for i := range 20 {
			a.add(noon, noon, strings.ReplaceAll(c.accepted, "%d", fmt.Sprint(i)), "", "")
		}
		for range 8 {
			if c.many != "" {
				a.add(noon, noon, c.many, "", "")
			}
		}
		a.refused(noon, noon, c.refused, "")
		if got := a.ofRoute(unlikeAtFirst); got != c.alone {
			t.Errorf("%s beside %s and %q: the route has a limit of its own: %v", c.refused, c.accepted, c.many, got)
		}
	}
}
