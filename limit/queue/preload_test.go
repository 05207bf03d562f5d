package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func TestWhatIsKnownFromBeforeIsThereForWhoOnlyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		r := asks("a", "x", tenPerMinute())
		asked := 0
		r.Limits[0][0].Source = externalFunc(func(_ string, _ Scope, _ limit.Spec, m limit.Meter) limit.Meter {
			asked++
			m.Take(time.Now(), 7)
			return m
		})
		left := func(want int64) {
			t.Helper()
			if e := g.Explain(r); len(e.Limits) != 1 || e.Limits[0].Left != want {
				t.Errorf("%+v, and not %d", e.Limits, want)
			}
		}
		g.Preload(r, func(Scope) bool { return false })
		if sites, _ := g.Len(); sites != 0 {
			t.Errorf("%d sites are remembered of which nothing is known", sites)
		}
		left(10)
		stale := r
		stale.Generation++
		g.Preload(stale, func(Scope) bool { return true })
		left(10)
		for range 3 {
			g.Preload(r, func(at Scope) bool { return at == r.Limits[0][0].Scope(&r) })
			left(3)
		}
		allow(t, g, r).Finish(Result{})
		left(2)
		if asked != 1 {
			t.Errorf("it was looked up %d times", asked)
		}
	})
}
