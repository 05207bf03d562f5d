package queue

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// needs is a plan by which every request needs one unit of a limit.
func needs(name string, spec *limit.Spec) planFunc {
	return plans(func(Request) [][]Limit { return [][]Limit{{{Name: name, Spec: spec, N: 1}}} })
}

// plans is a plan that knows no versions.
func plans(limits func(Request) [][]Limit) planFunc {
	return func(r Request) ([][]Limit, uint64) { return limits(r), 0 }
}

// A refusal of a limit that a reload has taken away is about the whole site: a
// cooldown of what nobody waits for would let the replay go at once, for ever.
func TestARefusalOfALimitThatIsNoMoreCoolsTheSite(t *testing.T) {
	for name, cool := range map[string]func(*testing.T, *Permit, Retry) error{
		"again": func(t *testing.T, p *Permit, r Retry) error { return p.Again(t.Context(), r) },
		"cool": func(_ *testing.T, p *Permit, r Retry) error {
			p.Cool(r.Cool, r.Until, r.Why)
			p.Finish(r.Result)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(Bounds{Wait: time.Hour}, nil)
				p := allow(t, g, asks("a", "x", tenPerMinute()))
				g.Reload(Bounds{Wait: time.Hour}, needs("another", tenPerMinute()))
				start := time.Now()
				if err := cool(t, p, Retry{
					Result: Result{Outcome: limit.Refused},
					Cool:   Scope{Limit: "limit"}, Until: start.Add(30 * time.Second), Why: "Retry-After",
				}); err != nil {
					t.Fatal(err)
				}
				p.Finish(Result{})
				allow(t, g, asks("a", "x", tenPerMinute())).Finish(Result{})
				if took := time.Since(start); took != 30*time.Second {
					t.Errorf("the next one went after %v", took)
				}
				nobodyWaits(t, g)
			})
		})
	}
}

func TestARefusalOfALimitThatIsStillNeededCoolsOnlyThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Hour}, nil)
		p := allow(t, g, asks("a", "x", tenPerMinute()))
		g.Reload(Bounds{Wait: time.Hour}, plans(func(r Request) [][]Limit {
			if r.Client == "y" {
				return nil
			}
			return asks("", "", &perSecond).Limits
		}))
		p.Cool(Scope{Limit: "limit"}, time.Now().Add(30*time.Second), "Retry-After")
		if q := allow(t, g, asks("a", "y", nil)); q.Waited() != 0 {
			t.Errorf("who does not need it waited %v", q.Waited())
		}
		if q := allow(t, g, asks("a", "x", nil)); q.Waited() != 30*time.Second {
			t.Errorf("who needs it waited %v", q.Waited())
		}
	})
}

// A request that was made before a reload and comes after it does not bring the
// old limits back, neither to a site that is known nor to a new one.
func TestWhatWasMadeBeforeAReloadGoesByTheLimitsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Hour}, nil)
		allow(t, g, asks("known", "x", tenPerMinute())).Finish(Result{})
		var asked atomic.Int64
		g.Reload(Bounds{Wait: time.Hour}, plans(func(Request) [][]Limit {
			asked.Add(1)
			return asks("", "", &limit.Spec{As: limit.Rolling, Amount: 2, Window: time.Minute}).Limits
		}))
		for _, site := range []string{"known", "new"} {
			start := time.Now()
			for range 5 {
				allow(t, g, asks(site, "x", tenPerMinute())).Finish(Result{})
			}
			if took := time.Since(start); took != 2*time.Minute {
				t.Errorf("%s: 5 of 2 a minute took %v", site, took)
			}
		}
		if asked.Load() != 10 {
			t.Errorf("it was asked %d times", asked.Load())
		}
		r := asks("known", "x", tenPerMinute())
		r.Generation = g.Generation()
		allow(t, g, r).Finish(Result{})
		if asked.Load() != 10 {
			t.Error("it was asked for a request that was made since")
		}
		g.Reload(Bounds{}, nil)
		if g.Generation() != r.Generation {
			t.Error("a reload without limits made a generation")
		}
	})
}

func TestWhatIsLargerThanItsLimitAfterAReloadIsRefused(t *testing.T) {
	of := func(amount int64) [][]Limit {
		return [][]Limit{{{Name: "tokens", Spec: &limit.Spec{As: limit.Rolling, Amount: amount, Window: time.Minute}, N: 10}}}
	}
	never := func(t *testing.T, err error) {
		t.Helper()
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != Never || r.Limit != "tokens" {
			t.Errorf("it is answered with %v", err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		flying := allow(t, g, Request{Site: "a", Limits: of(10)})
		resting := allow(t, g, Request{Site: "b", Limits: of(10)})
		var all sync.WaitGroup
		for range 3 { // the first of a group, and those behind it
			all.Go(func() {
				_, err := g.Wait(t.Context(), Request{Site: "a", Limits: of(10)})
				never(t, err)
			})
		}
		all.Go(func() {
			never(t, resting.Again(t.Context(), Retry{NotBefore: time.Now().Add(time.Second)}))
		})
		synctest.Wait()
		start := time.Now()
		g.Reload(Bounds{}, plans(func(Request) [][]Limit { return of(5) }))
		all.Wait()
		never(t, flying.Again(t.Context(), Retry{Result: Result{Outcome: limit.Failed}, NotBefore: start.Add(time.Second)}))
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v to say so", took)
		}
		nobodyWaits(t, g)
		for _, site := range []string{"a", "b"} {
			s := g.lock(site)
			if held, granted := s.sched.held, s.sched.granted; held+granted != 0 {
				t.Errorf("%s: %d wait and %d are sent", site, held, granted)
			}
			s.mu.Unlock()
		}
	})
}

// The meter may become smaller while the hold's own limits stay as they were.
func TestAHoldThatOutgrowsItsMeterDoesNotBlockItsGroup(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Minute})
	w.add("big", hold{needs: units(site, 10)})
	w.want("at first", w.next(), "big")
	large := w.add("large", hold{needs: units(site, 10)})
	w.add("small", hold{needs: [][]need{{{resource: site, n: 1}, {resource: w.s.newResource("other", nil, nil)}}}})
	w.want("then", w.next(), "")
	spec := limit.Spec{As: limit.Rolling, Amount: 5, Window: time.Minute}
	m, err := limit.Move(w.now, site.meter, spec)
	if err != nil {
		t.Fatal(err)
	}
	site.setMeter(w.now, m, func() limit.Meter { m, _ := limit.New(spec); return m }, false)
	w.next()
	if r := large.refusal; r == nil || r.Reason != Never {
		t.Errorf("the large one is answered with %v", r)
	}
	w.want("in the end", w.run(), "small")
}
