package queue

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/status"
)

func TestExplainOfASiteThatIsNotKnownMakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		e := g.Explain(asks("a", "x", tenPerMinute()))
		if sites, _ := g.Len(); sites != 0 {
			t.Errorf("%d sites are remembered", sites)
		}
		if e.Place != 1 || e.Blocker != (Blocker{}) || !e.Expected.Equal(time.Now()) || e.Held+e.InFlight != 0 || e.Never {
			t.Errorf("it says %+v", e)
		}
		if len(e.Limits) != 1 || e.Limits[0].Left != 10 || !e.Limits[0].Next.Equal(time.Now()) {
			t.Errorf("its limits are %+v", e.Limits)
		}
		large := asks("a", "x", tenPerMinute())
		large.Limits[0][0].N = 11
		if e := g.Explain(large); !e.Never || e.Limit != "limit" || !e.Expected.IsZero() {
			t.Errorf("of too much it says %+v", e)
		}
		if e := g.Explain(asks("a", "x", &limit.Spec{})); e.Limits[0].Left != -1 {
			t.Errorf("of a limit that makes no sense it says %+v", e)
		}
	})
}

func TestExplainSaysWhatARequestWouldMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		start := time.Now()
		r := asks("a", "x", &perMinute)
		r.Limits[0] = append(r.Limits[0], Limit{Name: "in flight", Title: "5 in flight", Spec: &limit.Spec{As: limit.Concurrency, Amount: 5}, N: 1})
		first := allow(t, g, r)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { allow(t, g, r).Finish(Result{}) })
		}
		synctest.Wait()
		urgent := r
		urgent.Priority = 0
		for name, c := range map[string]struct {
			ask   Request
			place int
			eta   time.Duration
		}{"as the others": {r, 4, 4 * time.Minute}, "urgent": {urgent, 1, time.Minute}} {
			e := g.Explain(c.ask)
			if e.Held != 3 || e.InFlight != 1 || e.Place != c.place || e.Expected.Sub(start) != c.eta || e.Limit != "limit" {
				t.Errorf("%s: %+v", name, e)
			}
			if len(e.Limits) != 2 || e.Limits[0] != (status.ExplainedLimit{Limit: "limit", Next: start.Add(time.Minute), Held: 3, InFlight: 1}) ||
				e.Limits[1] != (status.ExplainedLimit{Limit: "5 in flight", Left: 4, Next: start, InFlight: 1}) {
				t.Errorf("%s: the limits are %+v", name, e.Limits)
			}
		}
		first.Cool(Scope{}, start.Add(time.Hour), "Retry-After")
		e := g.Explain(r)
		if len(e.Limits) != 3 || e.Limits[0] != (status.ExplainedLimit{Limit: "a", Left: -1, Next: start.Add(time.Hour), Cooling: start.Add(time.Hour), Why: "Retry-After", Held: 3}) {
			t.Errorf("while it cools: %+v", e.Limits)
		}
		if e.Blocker.String() != "a (Retry-After)" || !e.Until.Equal(start.Add(time.Hour)) {
			t.Errorf("what keeps it is %v until %v", e.Blocker, e.Until)
		}
		first.Finish(Result{})
		if _, held := g.Len(); held != 3 {
			t.Errorf("%d are held", held)
		}
		all.Wait()
		if took := time.Since(start); took != time.Hour+2*time.Minute {
			t.Errorf("it took %v, and would have taken %v", took, time.Hour+2*time.Minute)
		}
	})
}

// Five requests a second let the request go soon, but ten requests a minute are what those before
// it use up.
func TestExplainNamesTheLimitThatDelaysTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		r := asks("a", "x", tenPerMinute())
		r.Limits[0] = append(r.Limits[0], Limit{Name: "fast", Title: "5 a second", Spec: &limit.Spec{As: limit.Fixed, Amount: 5, Window: time.Second}, N: 1})
		for range 5 {
			allow(t, g, r).Finish(Result{})
		}
		for range 8 {
			go func() { allow(t, g, r).Finish(Result{}) }()
			synctest.Wait()
		}
		e := g.Explain(r)
		if e.Held != 8 || e.Limit != "limit" || !e.First || !e.Until.Equal(e.Expected) || time.Until(e.Expected) < 50*time.Second {
			t.Errorf("it says %+v", e)
		}
		for i, want := range []int{3, 5} {
			if e.Limits[i].Held != want {
				t.Errorf("%+v: %d are to wait for it", e.Limits[i], want)
			}
		}
		for i, one := range g.HeldRequests("a") {
			if want := map[bool]string{true: "5 a second", false: "limit"}[i < 5]; one.Limit != want {
				t.Errorf("request %d waits for %s, want %s", i, one.Limit, want)
			}
		}
		time.Sleep(2 * time.Minute)
	})
}

// A token in quarantine, and one that has to wait for longer than another, keep nothing.
func TestExplainTellsWhatIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		spec := tenPerMinute()
		with := func(keys ...string) Request {
			r := Request{Site: "a", Client: "x", Priority: DefaultPriority}
			for _, key := range keys {
				r.Limits = append(r.Limits, []Limit{{Name: "n", Key: key, Spec: spec, N: 1}})
			}
			return r
		}
		all := with("denied", "slow", "free")
		use := func(key string) {
			for range 10 {
				allow(t, g, with(key)).Finish(Result{})
			}
		}
		check := func(want ...bool) Explanation {
			e := g.Explain(all)
			for i := range want {
				if e.Limits[i].Unused != want[i] {
					t.Errorf("%+v: not used is to be %v", e.Limits[i], want[i])
				}
			}
			return e
		}
		allow(t, g, with("denied")).Finish(Result{})
		g.Cool("a", Scope{"n", "denied"}, time.Now().Add(30*time.Second), Quarantine)
		use("slow")
		if e := check(true, true, false); e.Limit != "" {
			t.Errorf("it says that %q keeps it", e.Limit)
		}
		time.Sleep(3 * time.Second)
		use("free")
		if e := check(true, false, true); time.Until(e.Until) < 50*time.Second {
			t.Errorf("a token in quarantine keeps it: %+v", e.Blocker)
		}
	})
}
