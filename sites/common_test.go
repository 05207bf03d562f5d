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
			now, budget := noon.Add(time.Duration(i)*time.Minute), []string{"a", "c"}[i%2]
			c.refused(now, now.Add(-time.Second), budget)
			c.succeeded(now.Add(time.Second), "b")
			if !together {
				c.succeeded(now.Add(time.Second), budget) // its own limit has more again
			}
			found = c.refused(now.Add(3*time.Second), now.Add(2*time.Second), budget)
		}
		if found != together {
			t.Errorf("one limit of all: %v, found: %v", together, found)
		}
	}
}

// TestOneBudgetAloneSaysNothingOfTheOthers, however often it is refused while others succeed.
func TestOneBudgetAloneSaysNothingOfTheOthers(t *testing.T) {
	t.Parallel()
	var c common
	for i := range 20 {
		now := noon.Add(time.Duration(i) * time.Minute)
		c.succeeded(now, "b")
		if c.refused(now.Add(2*time.Second), now.Add(time.Second), "a") {
			t.Fatalf("after %d refusals of one budget the limit is taken for one of all", i+1)
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
		a.add(noon, noon, budget, budget)
	}
	if len(c.budgets) > mostBudgets || len(a.active) > mostBudgets || len(a.origins) > mostBudgets {
		t.Errorf("%d and %d budgets", len(c.budgets), len(a.active))
	}
}
