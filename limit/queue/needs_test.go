package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// What is remembered of shared limits is what would be found without it.
func TestSharedLimitsNeedWhatTheyNeedAlone(t *testing.T) {
	perHour := &limit.Spec{As: limit.Rolling, Amount: 100, Window: time.Hour}
	limitOf := func(name, key string, by By) Limit { return Limit{Name: name, Key: key, By: by, Spec: perHour, N: 1} }
	lists := map[string][][]Limit{
		"static":       {{limitOf("a", "", byAll), limitOf("b", "x", byAll)}},
		"own":          {{limitOf("a", "", byAll), limitOf("c", "", ByClient), limitOf("d", "", ByRoute), limitOf("e", "", byAll)}},
		"backends":     {{limitOf("a", "one", ByClient), {Name: "backend", Key: "one"}}, {limitOf("a", "two", ByClient), {Name: "backend", Key: "two"}}},
		"same name":    {{limitOf("a", "", byAll), limitOf("a", "x", ByClient), limitOf("a", "", byAll)}},
		"cost":         {{{Name: "cost", Spec: perHour, N: 2, Of: Cost}, limitOf("a", "", byAll)}},
		"nothing":      {{}},
		"many":         {everyKind},
		"more than 12": {append(append([]Limit(nil), everyKind...), limitOf("a", "", ByClient), limitOf("b", "", byAll))},
	}
	s := newSite(NewGate(Bounds{}, nil), "site")
	handles := map[string]*Needs{}
	for name, limits := range lists {
		handles[name] = Compile(limits)
	}
	for range 2 {
		for name, limits := range lists {
			for i := range 40 { // more than are remembered
				r := Request{Client: "xyz"[:i%4], Method: "GET", Path: fmt.Sprintf("/%d", i%10), Cost: int64(i % 3), Limits: limits}
				if i%5 == 0 {
					r.Method = "POST"
				}
				alone, err := s.registry.lookUp(noon, &r)
				if err != nil {
					t.Fatal(err)
				}
				for _, needs := range alone {
					for _, n := range needs {
						n.resource.users++ // it is not forgotten in between
					}
				}
				r.Needs = handles[name]
				shared, _, err := s.registry.plan(noon, &r)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := fmt.Sprint(shared), fmt.Sprint(alone); got != want {
					t.Errorf("%s, request %d needs\n%s, alone\n%s", name, i, got, want)
				}
			}
		}
	}
	if n := len(s.registry.found); n != mostFound {
		t.Errorf("%d are remembered, not %d", n, mostFound)
	}
}

func TestEachHasItsOwnKeyOfALimit(t *testing.T) {
	r := &Request{Client: "x", Method: "GET", Path: "/1"}
	for want, l := range map[string]Limit{
		"":           {},
		"x":          {By: ByClient},
		"GET /1":     {By: ByRoute},
		"here":       {Key: "here"},
		"here x":     {Key: "here", By: ByClient},
		"one GET /1": {Key: "one", By: ByRoute},
	} {
		if got := l.Scope(r).Key; got != want {
			t.Errorf("%+v: %q, not %q", l, got, want)
		}
	}
	if got := (&Limit{Key: "here", By: ByClient}).Scope(&Request{}).Key; got != "here" {
		t.Errorf("without a client: %q", got)
	}
}

// A site that has forgotten a meter does not let anybody take from it by what it
// remembers of a list.
func TestAForgottenMeterIsNotTakenFrom(t *testing.T) {
	for name, by := range map[string]By{"everyone's": byAll, "a client's": ByClient} {
		limits := func() [][]Limit { return [][]Limit{{{Name: "all", By: by, Spec: &perSecond, N: 1}}} }
		shared := Request{Site: "a", Client: "x", Limits: limits()}
		shared.Needs = Compile(shared.Limits)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(Bounds{}, nil)
				allow(t, g, shared).Finish(Result{})
				time.Sleep(time.Minute)
				for i := range 20 { // until the site looks for meters to forget
					allow(t, g, byRoute(fmt.Sprint(i), &perSecond)).Finish(Result{})
				}
				allow(t, g, shared).Finish(Result{})
				p := allow(t, g, Request{Site: "a", Client: "x", Limits: limits()})
				if p.Waited() != time.Second {
					t.Errorf("the next one waited %v", p.Waited())
				}
				p.Finish(Result{})
			})
		})
	}
}

// Limits that were changed by others are changed back.
func TestSharedLimitsBringTheirOwnAmount(t *testing.T) {
	of := func(amount int64) [][]Limit {
		return [][]Limit{{{Name: "all", Spec: &limit.Spec{As: limit.Concurrency, Amount: amount}, N: 1}}}
	}
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		shared := of(2)
		needs := Compile(shared)
		allow(t, g, Request{Site: "a", Limits: shared, Needs: needs})
		allow(t, g, Request{Site: "a", Limits: of(5)})
		if e := g.Explain(Request{Site: "a", Limits: shared}); e.Limits[0].Left != 3 {
			t.Errorf("%d of 5 are left", e.Limits[0].Left)
		}
		if _, err := g.Wait(t.Context(), Request{Site: "a", Limits: shared, Needs: needs, Wait: time.Second}); err == nil {
			t.Error("a third of two goes")
		}
	})
}

func TestASiteRemembersTheNeedsOfOnlySoManyRequests(t *testing.T) {
	for alternatives, most := range map[int]int{1: mostFound, 100: mostAlternatives / 100, 1000: 8} {
		g := NewGate(Bounds{}, nil)
		s := g.lock("site")
		s.mu.Unlock()
		for range 3 * mostFound {
			r := &Request{Limits: make([][]Limit, alternatives)}
			for i := range r.Limits {
				r.Limits[i] = []Limit{{Name: "all", Key: fmt.Sprint(i), Spec: &perSecond, N: 1}}
			}
			r.Needs = Compile(r.Limits)
			if _, _, err := s.registry.plan(noon, r); err != nil {
				t.Fatal(err)
			}
			sum := 0
			for _, f := range s.registry.found {
				sum += len(f.needs)
			}
			if n := len(s.registry.found); n > most || sum != s.registry.foundAlternatives {
				t.Fatalf("those of %d requests with %d alternatives are remembered, of %d %d", n, alternatives, sum, s.registry.foundAlternatives)
			}
		}
		if n := len(s.registry.found); n != most {
			t.Errorf("those of %d requests with %d alternatives are remembered, not %d", n, alternatives, most)
		}
		g.Reload(Bounds{}, plans(func(Request) [][]Limit { return nil }))
		if len(s.registry.found) > 0 {
			t.Error("after a reload the old ones are remembered")
		}
	}
}
