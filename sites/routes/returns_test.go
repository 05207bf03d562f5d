package routes

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// TestALimitThatGoesBackUpHoldsNobody: a site that allowed 60, then 20, and 60 again was crawled at 20 for
// an hour.
func TestALimitThatGoesBackUpHoldsNobody(t *testing.T) {
	t.Parallel()
	m := New()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := m.Class("GET", "", "/items", 0)
	show := func(amount float64, sent, reset time.Time, budget string) {
		m.Learn(sent.Add(time.Second), c, budget, sent, &learn.Lesson{Limits: []learn.Limit{{
			Name: "requests", Limit: learn.Amount{N: amount, Known: true}, Remaining: learn.Amount{N: amount - 1, Known: true}, Reset: reset,
		}}})
		c = m.Class("GET", "", "/items", 0)
	}
	titles := func() (all []string) {
		for _, l := range c.Limits {
			all = append(all, l.Title)
		}
		return all
	}
	for _, amount := range []float64{60, 20, 60} {
		reset := now.Add(time.Minute)
		show(amount, now, reset, "a")
		show(amount, now.Add(time.Second), reset, "a")
		if len(c.Limits) != 1 || c.Limits[0].Title != map[float64]string{60: "60 requests", 20: "20 requests"}[amount] {
			t.Errorf("%v are allowed, and %v hold", amount, titles())
		}
		now = reset.Add(time.Second)
	}

	// A window that is not over holds, whichever token it is of.
	show(20, now, now.Add(time.Hour), "b")
	show(60, now.Add(2*time.Minute), now.Add(3*time.Minute), "a")
	if len(c.Limits) != 2 {
		t.Errorf("of a limit of each token, %v hold", titles())
	}
}
