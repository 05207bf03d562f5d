package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestVisitsShowMetersAndWhatCools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := NewGate(Bounds{}, nil), newBudget(1, time.Hour)
		r := made("a", b)
		r.Limits[0] = append(r.Limits[0], Limit{Name: "token", Key: "key"}, Limit{Name: "written", Spec: tenPerMinute(), N: 1})
		p := allow(t, g, r)
		go func() { allow(t, g, r).Finish(Result{}) }()
		synctest.Wait()
		seen := map[Scope]ResourceInfo{}
		look := func() {
			clear(seen)
			g.VisitResources(func(now time.Time, at ResourceInfo) {
				if !now.Equal(time.Now()) || at.Site != "a" {
					t.Errorf("%v at %v", at, now)
				}
				seen[at.At] = at
			})
		}
		if look(); len(seen) != 4 {
			t.Errorf("%v", seen)
		}
		if at := seen[ledgerScope]; at.Meter != b || at.Spec != nil || at.Title != "75 per 15m" || !at.Cooling.IsZero() {
			t.Errorf("%+v", at)
		}
		p.Cool(Scope{"token", "key"}, time.Now().Add(2*time.Hour), "quarantine")
		p.Cool(Scope{}, time.Now().Add(time.Minute), "Retry-After")
		if look(); len(seen) != 4 || time.Until(seen[Scope{}].Cooling) != time.Minute {
			t.Errorf("%v", seen)
		}
		if at := seen[Scope{"token", "key"}]; at.Meter != nil || time.Until(at.Cooling) != 2*time.Hour {
			t.Errorf("%+v", at)
		}
		p.Finish(Result{})
		time.Sleep(3 * time.Hour)
		nobodyWaits(t, g)
	})
}

func TestACooldownIsEndedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, g := Scope{"token", "key"}, NewGate(Bounds{}, nil)
		r := Request{Site: "a", Limits: [][]Limit{{{Name: "token", Key: "key"}}}}
		allow(t, g, r).Finish(Result{})
		g.CoolAll(at, time.Now().Add(time.Hour), "quarantine")
		start := time.Now()
		went := make(chan *Permit, 5)
		for range 5 { // all of them: there is no slow start either
			go func() { went <- allow(t, g, r) }()
		}
		time.Sleep(time.Second)
		g.EndCooldowns(at)
		for range 5 {
			defer (<-went).Finish(Result{})
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("they went after %v", took)
		}
		if sites, _ := g.Len(); sites != 1 {
			t.Errorf("%d sites are remembered", sites)
		}
	})
}

func TestATokenCoolsAtAllSitesThatKnowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		with := func(site, key string) Request {
			return Request{Site: site, Limits: [][]Limit{{{Name: "token", Key: key}}}}
		}
		for i := range 3 {
			defer allow(t, g, with(fmt.Sprint(i), "key")).Finish(Result{})
		}
		defer allow(t, g, with("other", "other")).Finish(Result{})
		g.CoolAll(Scope{"token", "key"}, time.Now().Add(time.Minute), "quarantine")
		if p := allow(t, g, with("other", "other")); p.Waited() != 0 {
			t.Errorf("another token waited %v", p.Waited())
		}
		start := time.Now()
		for i := range 3 {
			if _ = allow(t, g, with(fmt.Sprint(i), "key")); time.Since(start) != time.Minute {
				t.Errorf("site %d was asked after %v", i, time.Since(start))
			}
		}
	})
}
