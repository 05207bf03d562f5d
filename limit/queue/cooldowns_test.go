package queue

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// toldCooldown is one that is told or visited.
type toldCooldown struct {
	site  string
	at    Scope
	until time.Time
	why   string
}

func cooldowns(g *Gate) (list []toldCooldown) {
	g.VisitCooldowns(func(site string, at Scope, until time.Time, why string) {
		list = append(list, toldCooldown{site, at, until, why})
	})
	return list
}

// What cooled before a restart cools after it, whatever is known of the site then.
func TestCooldownsAreRemembered(t *testing.T) {
	for _, key := range []string{"", "key", strings.Repeat("long", 100)} {
		synctest.Test(t, func(t *testing.T) {
			before, after := NewGate(Bounds{}, nil), NewGate(Bounds{}, nil)
			r := asks("a", "x", tenPerMinute())
			r.Limits[0][0].Key = key
			p := allow(t, before, r)
			until := time.Now().Add(time.Minute)
			p.Cool(Scope{"limit", key}, until, "Retry-After")
			p.Finish(Result{})
			list := cooldowns(before)
			if len(list) != 1 || list[0].site != "a" || !list[0].until.Equal(until) || list[0].why != "Retry-After" {
				t.Fatalf("%+v are remembered", list)
			}
			toldCooldown := list[0]
			if !after.Cool(toldCooldown.site, toldCooldown.at, toldCooldown.until, toldCooldown.why) || after.Cool(toldCooldown.site, toldCooldown.at, toldCooldown.until.Add(-time.Second), "sooner") {
				t.Error("it did not cool, or it became shorter")
			}
			if e := after.Explain(r); len(e.Limits) != 1 || e.Limits[0].Left != 10 && e.Limits[0].Left != 0 || !e.Limits[0].Cooling.Equal(until) {
				t.Errorf("%+v", e)
			}
			if p := allow(t, after, r); p.Waited() != time.Minute {
				t.Errorf("the first one waited %v", p.Waited())
			} else {
				p.Finish(Result{Unsent: true})
			}
			for range 10 { // what the resource was before it had a meter does not matter
				allow(t, after, r).Finish(Result{})
			}
			if took := time.Since(until); took != 0 {
				t.Errorf("ten of ten went until %v later", took)
			}
			if len(cooldowns(after)) != 0 {
				t.Error("it cools for ever")
			}
		})
	}
}

func TestACooldownThatIsOverIsNone(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	if g.Cool("a", Scope{}, time.Now(), "late") {
		t.Error("it cools")
	}
	if sites, _ := g.Len(); sites != 0 {
		t.Error("the site is made")
	}
}

func TestOnlySoManyCooldownsAreTaken(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	until := time.Now().Add(time.Hour)
	for i := range mostResources {
		if !g.Cool("a", Scope{"token", string(rune(0x10000 + i))}, until, "x") {
			t.Fatalf("%d are too many", i)
		}
	}
	if g.Cool("a", Scope{"token", "one more"}, until, "x") || !g.Cool("a", Scope{}, until, "x") {
		t.Error("there is one more, or the site does not cool")
	}
}

// What another instance met is no refusal of its own, while the same cooldown lasts.
func TestACooldownFromElsewhereCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		p := allow(t, g, Request{Site: "a"})
		p.Cool(Scope{}, time.Now().Add(time.Second), "429")
		g.Cool("a", Scope{}, time.Now().Add(2*time.Second), "429")
		p.Finish(Result{Outcome: limit.Refused})
		p = allow(t, g, Request{Site: "a"})
		if n := p.RefusalsInRow(Scope{}); n != 1 {
			t.Errorf("it was refused %d times in a row", n)
		}
		p.Finish(Result{})
	})
}

// A cooldown that a permit begins or makes longer is told, without a lock, and by
// the name under which another gate finds it.
func TestCooldownsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := NewGate(Bounds{}, nil)
		var told []toldCooldown
		var g *Gate
		g = NewGate(Bounds{}, cooledFunc(func(site string, at Scope, until time.Time, why string) {
			g.HeldRequests("") // there is no lock
			g.Cool(site, at, until, why)
			other.Cool(site, at, until, why)
			told = append(told, toldCooldown{site, at, until, why})
		}))
		r := asks("a", "x", tenPerMinute())
		at, start := Scope{Limit: "limit"}, time.Now()
		p := allow(t, g, r)
		p.Cool(at, start.Add(time.Second), "429")
		p.Cool(at, start.Add(time.Second), "429") // no longer
		g.Cool("a", at, start.Add(2*time.Second), "from elsewhere")
		p.Cool(Scope{Limit: "unknown"}, start.Add(3*time.Second), "the whole site")
		if err := p.Again(t.Context(), Retry{Cool: at, Until: start.Add(4 * time.Second), Why: "Retry-After"}); err != nil {
			t.Fatal(err)
		}
		p.Finish(Result{})
		want := []toldCooldown{
			{"a", at, start.Add(time.Second), "429"},
			{"a", Scope{}, start.Add(3 * time.Second), "the whole site"},
			{"a", at, start.Add(4 * time.Second), "Retry-After"},
		}
		if len(told) != len(want) {
			t.Fatalf("%+v are told", told)
		}
		for i := range want {
			if told[i] != want[i] {
				t.Errorf("%+v is told, not %+v", told[i], want[i])
			}
		}
		if p := allow(t, other, r); time.Since(start) != 4*time.Second || p.Waited() != 0 {
			t.Errorf("the other one lets it go after %v", time.Since(start))
		}
	})
}
