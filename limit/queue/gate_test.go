package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tenPerMinute() *limit.Spec {
	return &limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Minute}
}

// asks is a request of a client for one unit of a limit of a site.
func asks(site, client string, spec *limit.Spec) Request {
	return Request{
		Site: site, Client: client, Priority: DefaultPriority,
		Limits: [][]Limit{{{Name: "limit", Spec: spec, N: 1}}},
	}
}

func allow(t *testing.T, g *Gate, r Request) *Permit {
	t.Helper()
	p, err := g.Wait(t.Context(), r)
	if err != nil {
		t.Fatalf("%s is not allowed: %v", r.Site, err)
	}
	return p
}

func deny(t *testing.T, g *Gate, r Request, why Reason) *Refusal {
	t.Helper()
	p, err := g.Wait(t.Context(), r)
	var refusal *Refusal
	if p != nil || !errors.As(err, &refusal) || refusal.Reason != why {
		t.Fatalf("%s: %v, want %q", r.Site, err, why)
	}
	return refusal
}

func nobodyWaits(t *testing.T, g *Gate) {
	t.Helper()
	if _, held := g.Len(); held != 0 {
		t.Errorf("%d are still counted as held", held)
	}
}

func TestARequestWithoutLimitsGoesAtOnce(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	p := allow(t, g, Request{Site: "a"})
	p.Finish(Result{})
	p.Finish(Result{})
	if p.Waited() != 0 {
		t.Errorf("waited %v", p.Waited())
	}
	nobodyWaits(t, g)
}

func TestRequestsAreHeldUntilTheWindowHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Hour}, nil)
		start := time.Now()
		var late atomic.Int64
		var all sync.WaitGroup
		for range 45 {
			all.Go(func() {
				p := allow(t, g, asks("a", "x", tenPerMinute()))
				defer p.Finish(Result{})
				if p.Waited() != time.Since(start) {
					t.Errorf("waited %v, says %v", time.Since(start), p.Waited())
				}
				late.Add(int64(time.Since(start) / time.Minute))
			})
		}
		all.Wait()
		if took := time.Since(start); took != 4*time.Minute {
			t.Errorf("45 at 10 a minute took %v", took)
		}
		if got := late.Load(); got != 10*(0+1+2+3)+5*4 {
			t.Errorf("the minutes they went in add up to %d", got)
		}
		nobodyWaits(t, g)
	})
}

func TestAWaitingRequestLeavesTheQueueWhenItsClientHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		for range 10 {
			allow(t, g, asks("a", "x", tenPerMinute())).Finish(Result{})
		}
		ctx, hangUp := context.WithCancel(t.Context())
		errs := make(chan error, 5)
		for range 5 {
			go func() {
				_, err := g.Wait(ctx, asks("a", "x", tenPerMinute()))
				errs <- err
			}()
		}
		synctest.Wait()
		if _, held := g.Len(); held != 5 {
			t.Fatalf("%d are held", held)
		}
		hangUp()
		synctest.Wait()
		for range 5 {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("the answer is %v", err)
			}
		}
		nobodyWaits(t, g)
		time.Sleep(time.Minute)
		for range 10 { // nothing was spent
			if p := allow(t, g, asks("a", "x", tenPerMinute())); p.Waited() != 0 {
				t.Errorf("waited %v", p.Waited())
			}
		}
	})
}

func TestNobodyIsGrantedWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := &limit.Spec{As: limit.Rolling, Amount: 1, Window: time.Minute}
		g := NewGate(Bounds{}, nil)
		allow(t, g, asks("a", "x", spec)).Finish(Result{})
		// It hangs up at the very instant at which it could go.
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
		defer cancel()
		var both sync.WaitGroup
		both.Go(func() {
			if p, err := g.Wait(ctx, asks("a", "x", spec)); err == nil {
				p.Finish(Result{Unsent: true})
			}
		})
		synctest.Wait()
		both.Go(func() {
			p := allow(t, g, asks("a", "y", spec))
			if p.Waited() != time.Minute {
				t.Errorf("the next one waited %v", p.Waited())
			}
			p.Finish(Result{})
		})
		both.Wait()
		nobodyWaits(t, g)
	})
}

// A grant and a client that goes can cross each other.
func TestWhoHangsUpAtTheInstantOfItsGrantSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		for range 20 {
			p := allow(t, g, asks("a", "x", tenPerMinute()))
			if p.Waited() != 0 {
				t.Fatalf("waited %v", p.Waited())
			}
			p.Leave()
		}
		nobodyWaits(t, g)
	})
}

func TestBoundsRefuseAtOnceAndSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Max: 3, PerSite: 2, Wait: time.Hour}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		wait := func(site string) {
			waiting.Go(func() {
				if _, err := g.Wait(ctx, asks(site, "x", &single)); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", site, err)
				}
			})
			synctest.Wait()
		}
		for _, site := range []string{"a", "b"} {
			defer allow(t, g, asks(site, "x", &single)).Finish(Result{})
		}
		wait("a")
		wait("a")
		refusal := deny(t, g, asks("a", "x", &single), siteFull)
		if refusal.Error() != "queue.per_site: 2: the queue of the site is full" || !refusal.RetryAt.After(time.Now()) {
			t.Errorf("it says %v, and to come back at %v", refusal, refusal.RetryAt)
		}
		wait("b")
		deny(t, g, asks("b", "x", &single), allFull)
		cancel()
		waiting.Wait()
		nobodyWaits(t, g)
	})
}

func TestMaxWaitIsTheShorterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: 10 * time.Minute}, nil)
		defer allow(t, g, asks("a", "x", &single)).Finish(Result{})
		for want, asked := range map[time.Duration]time.Duration{10 * time.Minute: time.Hour, time.Minute: time.Minute} {
			start := time.Now()
			r := asks("a", "x", &single)
			r.Wait = asked
			deny(t, g, r, TooLong)
			if took := time.Since(start); took != want {
				t.Errorf("asked to wait %v, waited %v", asked, took)
			}
		}
		allow(t, g, asks("b", "x", tenPerMinute()))
		r := asks("b", "x", tenPerMinute())
		r.Wait, r.Limits[0][0].N = time.Second, 10
		start := time.Now()
		if refusal := deny(t, g, r, TooLong); refusal.RetryAt.Sub(start) != time.Minute || time.Since(start) != 0 {
			t.Errorf("it waits %v to say so: %v", time.Since(start), refusal.RetryAt)
		}
	})
}

func TestAReplayKeepsItsPlaceAndItsPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Hour}, nil)
		start := time.Now()
		first := allow(t, g, asks("a", "x", &perSecond))
		var order []string
		var all sync.WaitGroup
		all.Go(func() {
			p := allow(t, g, asks("a", "x", &perSecond))
			order = append(order, fmt.Sprint("second ", time.Since(start)))
			p.Finish(Result{})
		})
		synctest.Wait()
		err := first.Again(t.Context(), Retry{
			Result: Result{Outcome: limit.Refused},
			Until:  start.Add(10 * time.Second), Why: "Retry-After",
		})
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, fmt.Sprint("first ", time.Since(start)))
		if first.Waited() != 10*time.Second {
			t.Errorf("waited %v", first.Waited())
		}
		first.Finish(Result{})
		all.Wait()
		if got := fmt.Sprint(order); got != "[first 10s second 11s]" {
			t.Error(got)
		}
		nobodyWaits(t, g)
	})
}

func TestACooldownOfARouteLeavesTheSiteAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Hour}, nil)
		slow := asks("a", "x", tenPerMinute())
		slow.Limits[0] = append(slow.Limits[0], Limit{Name: "route", Key: "GET /slow"})
		p := allow(t, g, slow)
		p.Cool(Scope{"route", "GET /slow"}, time.Now().Add(time.Minute), "Retry-After")
		p.Finish(Result{Outcome: limit.Refused})
		if p := allow(t, g, asks("a", "x", tenPerMinute())); p.Waited() != 0 {
			t.Errorf("another route waited %v", p.Waited())
		}
		if p := allow(t, g, slow); p.Waited() != time.Minute {
			t.Errorf("the route waited %v", p.Waited())
		}
	})
}

func TestALimitByClientIsEachClientsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		for _, client := range []string{"a", "b", "c"} {
			r := asks("s", client, nil)
			r.Limits[0] = []Limit{{Name: "1 per second", Key: client, Spec: &perSecond, N: 1}}
			if p := allow(t, g, r); p.Waited() != 0 {
				t.Errorf("%s waited %v", client, p.Waited())
			}
			if p := allow(t, g, r); p.Waited() != time.Second {
				t.Errorf("the second of %s waited %v", client, p.Waited())
			}
		}
	})
}

// Limits are lowered, raised and removed with 1,000 requests in the queue.
func TestAReloadPlansTheQueueAnew(t *testing.T) {
	for name, c := range map[string]struct {
		plan func(Request) [][]Limit
		took time.Duration
	}{
		"lowered": {func(r Request) [][]Limit {
			return asks("", "", &limit.Spec{As: limit.Rolling, Amount: 5, Window: time.Minute}).Limits
		}, 200 * time.Minute},
		"raised": {func(r Request) [][]Limit {
			return asks("", "", &limit.Spec{As: limit.Rolling, Amount: 500, Window: time.Minute}).Limits
		}, 2 * time.Minute},
		"removed": {func(Request) [][]Limit { return nil }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(Bounds{}, nil)
				for range 10 {
					allow(t, g, asks("a", "x", tenPerMinute())).Finish(Result{})
				}
				start := time.Now()
				var all sync.WaitGroup
				var went atomic.Int64
				for range 1000 {
					all.Go(func() {
						allow(t, g, asks("a", "x", tenPerMinute())).Finish(Result{})
						went.Add(1)
					})
				}
				time.Sleep(time.Second)
				g.Reload(Bounds{}, plans(c.plan))
				all.Wait()
				if went.Load() != 1000 || time.Since(start) > c.took || time.Since(start) < c.took-2*time.Minute {
					t.Errorf("%d went in %v, want %v", went.Load(), time.Since(start), c.took)
				}
				nobodyWaits(t, g)
			})
		})
	}
}

func TestDrainLetsGoWhatItCanAndThenRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		var went, refused atomic.Int64
		var all sync.WaitGroup
		for range 35 {
			all.Go(func() {
				p, err := g.Wait(t.Context(), asks("a", "x", tenPerMinute()))
				var r *Refusal
				switch {
				case err == nil:
					went.Add(1)
					p.Finish(Result{})
				case errors.As(err, &r) && r.Reason == Draining:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if err := g.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain says %v", err)
		}
		all.Wait()
		if went.Load() != 20 || refused.Load() != 15 {
			t.Errorf("%d went and %d were refused", went.Load(), refused.Load())
		}
		deny(t, g, asks("b", "x", tenPerMinute()), Draining)
		if err := g.Drain(t.Context()); err != nil {
			t.Errorf("an empty gate drains with %v", err)
		}
	})
}

func TestDrainWaitsForWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		p := allow(t, g, asks("a", "x", tenPerMinute()))
		time.AfterFunc(7*time.Second, func() { p.Finish(Result{}) })
		start := time.Now()
		if err := g.Drain(t.Context()); err != nil || time.Since(start) != 7*time.Second {
			t.Errorf("drained after %v: %v", time.Since(start), err)
		}
	})
}

func TestObserveHoldsNothingAndSaysWhatWouldHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		for i := range 15 {
			r := asks("a", "x", tenPerMinute())
			r.Observe = true
			p := allow(t, g, r)
			would := p.WouldBlock()
			if (would != nil) != (i >= 10) || would != nil && (would.Limit != "limit" || time.Until(would.Until) != time.Minute) {
				t.Errorf("request %d: %+v", i, would)
			}
			p.Finish(Result{})
		}
		nobodyWaits(t, g)
	})
}

func TestOneStuckSiteDoesNotSlowAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{PerSite: 2000, Wait: 30 * time.Minute}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		p := allow(t, g, asks("stuck", "x", tenPerMinute()))
		p.Cool(Scope{}, time.Now().Add(15*time.Minute), "Retry-After")
		var all sync.WaitGroup
		for range 2000 {
			all.Go(func() {
				if _, err := g.Wait(ctx, asks("stuck", "x", &limit.Spec{As: limit.Concurrency, Amount: 1})); err == nil {
					t.Error("a request went to a site that cools")
				}
			})
		}
		synctest.Wait()
		for range 100 {
			if p := allow(t, g, asks("open", "x", nil)); p.Waited() != 0 {
				t.Errorf("waited %v", p.Waited())
			}
		}
		cancel()
		all.Wait()
	})
}

func TestAGreedyClientDoesNotKeepOthersOutOfAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{PerSite: 100}, nil)
		running := allow(t, g, asks("a", "greedy", &single))
		var refused atomic.Int64
		var all sync.WaitGroup
		ask := func(client string) {
			all.Go(func() {
				p, err := g.Wait(t.Context(), asks("a", client, &single))
				if err != nil {
					refused.Add(1)
					return
				}
				p.Finish(Result{})
			})
			synctest.Wait()
		}
		for range 100 {
			ask("greedy")
		}
		for range 60 {
			ask("modest")
		}
		if held := g.HeldRequests("a"); len(held) != 100 || refused.Load() != 60 {
			t.Fatalf("%d are held and %d refused", len(held), refused.Load())
		}
		share := 0
		for _, h := range g.HeldRequests("a") {
			if h.Client == "modest" {
				share++
			}
		}
		if share != 50 {
			t.Errorf("the modest client has %d of 100 places", share)
		}
		running.Finish(Result{})
		all.Wait()
		nobodyWaits(t, g)
	})
}
