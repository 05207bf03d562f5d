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
		var c common
		found := false
		for i := range 20 {
			now := noon.Add(time.Duration(i) * time.Minute)
			c.refused(now, now.Add(-time.Second), "a")
			c.succeeded(now.Add(time.Second), "b")
			if !together {
				c.succeeded(now.Add(time.Second), "a") // its own limit has more again
			}
			found = c.refused(now.Add(3*time.Second), now.Add(2*time.Second), "a")
		}
		if found != together {
			t.Errorf("one limit of all: %v, found: %v", together, found)
		}
	}
}

// TestBudgetsAreBounded however many are refused.
func TestBudgetsAreBounded(t *testing.T) {
	t.Parallel()
	var c common
	var a answers
	for i := range 3 * mostBudgets {
		budget := fmt.Sprint(i)
		c.refused(noon, noon, budget)
		a.add(noon, noon, budget)
	}
	if len(c.budgets) > mostBudgets || len(a.active) > mostBudgets {
		t.Errorf("%d and %d budgets", len(c.budgets), len(a.active))
	}
}
