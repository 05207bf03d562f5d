package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestSitesThatHaveNothingToRememberAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		for i := range 100_000 {
			allow(t, g, asks(fmt.Sprint("site", i), "x", &perSecond)).Finish(Result{})
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		if sites, _ := g.Len(); sites > 2000 {
			t.Errorf("%d sites are remembered", sites)
		}
		for i := range 10_000 {
			r := asks("one", "x", nil)
			r.Limits[0] = []Limit{{Name: "by client", Key: fmt.Sprint(i), Spec: &perSecond, N: 1}}
			allow(t, g, r).Finish(Result{})
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		s := g.lock("one")
		if n := len(s.registry.byScope); n > 1000 || len(s.sched.resources) > n+1 {
			t.Errorf("%d clients are remembered, %d in all", n, len(s.sched.resources))
		}
		s.mu.Unlock()
	})
}

func TestAMeterIsNotForgottenBetweenLookingItUpAndUsingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Nanosecond}, nil)
		for i := range 100 {
			r := asks("a", "x", nil)
			for n := range 20 { // enough of them to be swept again and again
				r.Limits[0] = append(r.Limits[0], Limit{Name: "in flight", Key: fmt.Sprint(i, n), By: ByRoute, Spec: &single, N: 1})
			}
			p := allow(t, g, r)
			again := r
			again.Limits = [][]Limit{r.Limits[0][1:2]}
			if _, err := g.Wait(t.Context(), again); err == nil {
				t.Fatalf("request %d: two are in flight", i)
			}
			p.Finish(Result{})
			time.Sleep(sweepPause)
		}
		s := g.lock("a")
		defer s.mu.Unlock()
		if len(s.registry.byScope) > 100 {
			t.Errorf("%d slots are remembered", len(s.registry.byScope))
		}
	})
}
