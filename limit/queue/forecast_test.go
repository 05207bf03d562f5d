package queue

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// What is expected of each hold is what then happens, whatever its limit counts by.
func TestAPredictionIsWhatThenHappens(t *testing.T) {
	const minute = time.Minute
	rolling := limit.Spec{As: limit.Rolling, Amount: 10, Window: minute}
	for name, c := range map[string]struct {
		specs []limit.Spec
		cost  int64
		slack time.Duration // how much later than expected the last may go
	}{
		"rolling":                {specs: []limit.Spec{rolling}},
		"rolling, in slices":     {specs: []limit.Spec{{As: limit.Rolling, Amount: 7, Window: 100 * time.Second}}},
		"rolling, by cost":       {specs: []limit.Spec{rolling}, cost: 3},
		"fixed":                  {specs: []limit.Spec{{As: limit.Fixed, Amount: 10, Window: minute}}},
		"first use":              {specs: []limit.Spec{{As: limit.FirstUse, Amount: 10, Window: minute}}},
		"bucket":                 {specs: []limit.Spec{{As: limit.Bucket, Amount: 10, Window: minute, Burst: 4}}},
		"paced":                  {specs: []limit.Spec{{As: limit.Paced, Amount: 10, Window: minute}}},
		"quota":                  {specs: []limit.Spec{{As: limit.Quota, Amount: 10, Period: limit.Day}}},
		"adaptive":               {specs: []limit.Spec{{As: limit.Adaptive, Min: 0.1, Max: 1}}, slack: 2 * time.Second},
		"two at once":            {specs: []limit.Spec{rolling, {As: limit.Paced, Amount: 30, Window: 10 * minute}}},
		"with a bound in flight": {specs: []limit.Spec{{As: limit.Concurrency, Amount: 2}, rolling}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(Bounds{}, nil)
				r := Request{Site: "a", Client: "x", Priority: DefaultPriority, Cost: c.cost, Limits: [][]Limit{nil}}
				for i := range c.specs {
					of := Unit(0)
					if c.cost > 0 {
						of = Cost
					}
					r.Limits[0] = append(r.Limits[0], Limit{Name: string(c.specs[i].As), Spec: &c.specs[i], N: 1, Of: of})
				}
				for range 3 { // some are used already, at different times
					allow(t, g, r).Finish(Result{})
					time.Sleep(7 * time.Second)
				}
				var mu sync.Mutex
				var went []time.Time
				var all sync.WaitGroup
				for range 30 {
					all.Go(func() {
						p := allow(t, g, r)
						mu.Lock()
						went = append(went, time.Now())
						mu.Unlock()
						p.Finish(Result{})
					})
					synctest.Wait() // so that they arrive in order
				}
				mu.Lock()
				atOnce := len(went)
				mu.Unlock()
				var expected []time.Time
				for _, w := range g.HeldRequests("a") {
					expected = append(expected, w.ETA)
				}
				guest := g.Explain(r)
				all.Go(func() {
					p := allow(t, g, r)
					mu.Lock()
					went = append(went, time.Now())
					mu.Unlock()
					p.Finish(Result{})
				})
				all.Wait()
				slices.SortFunc(went, time.Time.Compare)
				expected = append(expected, guest.Expected)
				if len(expected) != len(went)-atOnce || guest.Place != len(expected) {
					t.Fatalf("%d were expected, %d went later; the last has place %d", len(expected), len(went)-atOnce, guest.Place)
				}
				for i, at := range expected {
					if late := went[atOnce+i].Sub(at); late < -time.Millisecond || late > c.slack+time.Second {
						t.Errorf("place %d was expected after %v and went %v later than that", i+1, at.Sub(went[0]), late)
					}
				}
			})
		})
	}
}

func TestWhatIsInFlightHasNoExpectedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		r := asks("a", "x", &limit.Spec{As: limit.Concurrency, Amount: 1})
		p := allow(t, g, r)
		e := g.Explain(r)
		if !e.Expected.IsZero() || e.Place != 1 || e.Limit != "limit" {
			t.Errorf("it says %+v", e)
		}
		p.Finish(Result{})
	})
}

// Holds that need different limits of a site do not stand in each other's way.
func TestAPredictionKnowsThatRoutesDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		start := time.Now()
		site := Limit{Name: "site", Spec: &limit.Spec{As: limit.Rolling, Amount: 2, Window: time.Minute}, N: 1}
		slow := Request{Site: "a", Client: "x", Priority: DefaultPriority, Limits: [][]Limit{{site, {
			Name: "route", Spec: &limit.Spec{As: limit.Paced, Amount: 1, Window: time.Hour}, N: 1,
		}}}}
		fast := Request{Site: "a", Client: "x", Priority: DefaultPriority, Limits: [][]Limit{{site}}}
		allow(t, g, slow).Finish(Result{})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { allow(t, g, slow).Finish(Result{}) })
		}
		synctest.Wait()
		if e := g.Explain(fast); !e.Expected.Equal(start) || e.Held != 2 {
			t.Errorf("of the other route it says %+v", e)
		}
		if e := g.Explain(slow); e.Expected.Sub(start) != 3*time.Hour {
			t.Errorf("of the same route it says %v", e.Expected.Sub(start))
		}
		all.Wait()
	})
}

func TestADrainRefusesAtOnceWhatCannotGoBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		start := time.Now()
		for range 10 {
			allow(t, g, asks("a", "x", tenPerMinute())).Finish(Result{})
			time.Sleep(time.Second)
		}
		refused := map[time.Duration]int{}
		went := 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				p, err := g.Wait(t.Context(), asks("a", "x", tenPerMinute()))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused[time.Since(start)]++
					return
				}
				went++
				p.Finish(Result{})
			})
		}
		synctest.Wait()
		busy := allow(t, g, asks("b", "x", &limit.Spec{As: limit.Concurrency, Amount: 1}))
		all.Go(func() {
			allow(t, g, asks("b", "x", &limit.Spec{As: limit.Concurrency, Amount: 1})).Finish(Result{})
		})
		synctest.Wait()
		// Now is 10 s after the start, and what went then comes free from 60 s on.
		denied, on := g.StartDrain(start.Add(64*time.Second + time.Second/2))
		synctest.Wait()
		mu.Lock()
		if denied != 7 || on != 6 || refused[10*time.Second] != 7 {
			t.Errorf("%d were refused and %d wait on; refused after %v", denied, on, refused)
		}
		mu.Unlock()
		deny(t, g, asks("a", "y", tenPerMinute()), Draining)
		time.Sleep(5 * time.Second)
		busy.Finish(Result{}) // nobody knew when, so that its follower was let wait
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
		if went != 5 || len(refused) != 1 {
			t.Errorf("%d went; refused after %v", went, refused)
		}
		nobodyWaits(t, g)
	})
}

func TestWhoComesBackTooLateForADrainIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		start := time.Now()
		p := allow(t, g, asks("a", "x", tenPerMinute()))
		q := allow(t, g, asks("a", "x", tenPerMinute()))
		g.StartDrain(start.Add(30 * time.Second))
		var refusal *Refusal
		if err := p.Again(t.Context(), Retry{NotBefore: start.Add(time.Minute)}); !errors.As(err, &refusal) || refusal.Reason != Draining || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := q.Again(t.Context(), Retry{NotBefore: start.Add(10 * time.Second)}); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		q.Finish(Result{})
	})
}
