package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// guarded is a meter that is only asked under a lock.
type guarded struct {
	limit.Meter
	t    *testing.T
	held *bool
}

func (m guarded) look() {
	if !*m.held {
		m.t.Error("a meter is asked without the lock of its site")
	}
}

func (m guarded) When(now time.Time, n int64) (time.Time, bool) {
	m.look()
	return m.Meter.When(now, n)
}

func (m guarded) State() []byte {
	m.look()
	return m.Meter.State()
}

// waitingLine is a site where many wait for a rolling limit that is used up, half of them for
// one more limit of which there is no copy.
func waitingLine(t testing.TB, holds int, wrap func(limit.Meter) limit.Meter) *scheduler {
	fresh := func() limit.Meter {
		m, err := limit.New(limit.Spec{As: limit.Rolling, Amount: 1024, Window: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	s := newScheduler(0)
	site, other := s.newResource("site", wrap(fresh()), fresh), s.newResource("other", wrap(fresh()), nil)
	few, more := [][]need{{{resource: site, n: 1}}}, [][]need{{{resource: site, n: 1}, {resource: other, n: 1}}}
	for n := range holds + 1024 {
		h := &hold{needs: few}
		if n%2 == 0 {
			h.needs = more
		}
		now := noon.Add(time.Duration(n) * time.Millisecond)
		if !s.tryAtOnce(now, h) {
			s.add(now, h)
		}
	}
	s.next(noon.Add(time.Minute))
	return s
}

func TestAPredictionAsksMetersUnderTheLockAndNeedsItForNothingElse(t *testing.T) {
	held := true
	s := waitingLine(t, 200, func(m limit.Meter) limit.Meter { return guarded{m, t, &held} })
	now := noon.Add(time.Minute)
	want := s.line(now)
	all := s.snapshot(now, nil)
	held = false
	looks := 0
	list := all.inOrder(func(look func(time.Time)) {
		looks++
		held = true
		look(now)
		held = false
	})
	if looks == 0 || len(list) != 200 {
		t.Errorf("%d looks at limits for %d holds", looks, len(list))
	}
	for i := range list {
		if a, b := list[i], want[i]; a.hold != b.hold || a.Place != b.Place || !a.ETA.Equal(b.ETA) || a.Blocker != b.Blocker {
			t.Fatalf("place %d: %+v, and with the lock %+v", i, a, b)
		}
	}
}

func TestHoldsAreListedWhileTheyComeAndGo(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	spec := &limit.Spec{As: limit.Rolling, Amount: 50, Window: time.Hour}
	for range 20 {
		all.Go(func() {
			for ctx.Err() == nil {
				soon, end := context.WithTimeout(ctx, time.Millisecond)
				if p, err := g.Wait(soon, asks("a", "x", spec)); err == nil {
					p.Finish(Result{Unsent: true})
				}
				end()
			}
		})
	}
	for range 200 {
		g.HeldRequests("a")
		g.HeldCounts("")
	}
	cancel()
	all.Wait()
	if n := len(g.HeldCounts("")); n != 0 {
		t.Errorf("%d counts of nothing", n)
	}
}

// BenchmarkHolds is a look at 2,000 holds of a rolling limit: what of it needs the lock
// of their site, and all of it.
func BenchmarkHolds(b *testing.B) {
	s := waitingLine(b, 2000, func(m limit.Meter) limit.Meter { return m })
	now := noon.Add(time.Minute)
	var locked time.Duration
	for b.Loop() {
		began := time.Now()
		all := s.snapshot(now, nil)
		locked += time.Since(began)
		all.inOrder(func(look func(time.Time)) {
			began := time.Now()
			look(now)
			locked += time.Since(began)
		})
	}
	b.ReportMetric(float64(locked.Nanoseconds())/float64(b.N), "ns-locked/op")
}

// unlocked is a copy of a meter that notes whether it is asked without the lock of a site.
type unlocked struct {
	limit.Meter
	site *site
	free *int
}

func (m unlocked) When(now time.Time, n int64) (time.Time, bool) {
	if m.site.mu.TryLock() {
		m.site.mu.Unlock()
		*m.free++
	}
	return m.Meter.When(now, n)
}

// Who asks why something waits, and abide itself when it stops, keep no request from its
// site meanwhile.
func TestAnExplanationAndADrainPredictWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: 10 * time.Hour}, nil)
		r := asks("a", "x", tenPerMinute())
		var done sync.WaitGroup
		var refused atomic.Int32
		for range 40 {
			done.Go(func() {
				if p, err := g.Wait(t.Context(), r); err == nil {
					p.Finish(Result{Outcome: limit.Success})
				} else {
					refused.Add(1)
				}
			})
			synctest.Wait()
		}
		s := g.lock("a")
		free := 0
		for res := range s.sched.resources {
			if fresh := res.fresh; fresh != nil {
				res.fresh = func() limit.Meter { return unlocked{fresh(), s, &free} }
			}
		}
		s.mu.Unlock()
		e := g.Explain(r)
		if free == 0 || e.Place != 31 || e.Held != 30 || e.Limits[0].Held != 30 || time.Until(e.Expected) != 4*time.Minute {
			t.Errorf("%d looks without the lock, %+v", free, e)
		}
		free = 0
		gone, wait := g.StartDrain(time.Now().Add(90 * time.Second))
		synctest.Wait()
		if free == 0 || gone != 20 || wait != 10 || refused.Load() != 20 {
			t.Errorf("%d looks without the lock; %d are refused, %d wait, %d know", free, gone, wait, refused.Load())
		}
		done.Wait()
		nobodyWaits(t, g)
	})
}
