package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func TestManyClientsAtOnceKeepTheLimitAndCountEverything(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	var flying, most, went atomic.Int64
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+n)%7 == 0 {
					go cancel()
				}
				p, err := g.Wait(ctx, asks("a", fmt.Sprint(i%5), &limit.Spec{As: limit.Concurrency, Amount: 4}))
				if err == nil {
					for now := flying.Add(1); ; {
						old := most.Load()
						if now <= old || most.CompareAndSwap(old, now) {
							break
						}
					}
					flying.Add(-1)
					p.Finish(Result{})
					went.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if most.Load() > 4 {
		t.Errorf("%d in flight", most.Load())
	}
	nobodyWaits(t, g)
	for range 4 { // nothing has leaked
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, err := g.Wait(ctx, asks("a", "x", &limit.Spec{As: limit.Concurrency, Amount: 4})); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
}

func TestAHundredAtTenPerSecondTakeTenSeconds(t *testing.T) {
	for _, as := range []limit.As{limit.Paced, limit.Bucket} {
		synctest.Test(t, func(t *testing.T) {
			spec := &limit.Spec{As: as, Amount: 10, Window: time.Second, Burst: 1}
			g := NewGate(Bounds{Max: 10000, PerSite: 2000, Wait: 30 * time.Minute, Aging: 30 * time.Second}, nil)
			start := time.Now()
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { allow(t, g, asks("a", fmt.Sprint(i%7), spec)).Finish(Result{}) })
			}
			all.Wait()
			if took := time.Since(start); took < 9900*time.Millisecond || took > 10100*time.Millisecond {
				t.Errorf("%s: it took %v", as, took)
			}
		})
	}
}

// The origin counts by itself, from when a request arrives.
func TestAWindowIsUsedUpAndNeverExceeded(t *testing.T) {
	for _, clients := range []int{1, 10, 200} {
		synctest.Test(t, func(t *testing.T) {
			const n, windows = 100, 10
			spec := &limit.Spec{As: limit.Rolling, Amount: n, Window: time.Minute}
			g := NewGate(Bounds{}, nil)
			var mu sync.Mutex
			var arrived []time.Time
			ctx, stop := context.WithTimeout(t.Context(), windows*time.Minute-time.Millisecond)
			defer stop()
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					for {
						p, err := g.Wait(ctx, asks("a", fmt.Sprint(i), spec))
						if err != nil {
							return
						}
						mu.Lock()
						arrived = append(arrived, time.Now())
						mu.Unlock()
						time.Sleep(50 * time.Millisecond)
						p.Finish(Result{})
					}
				})
			}
			all.Wait()
			for i := n; i < len(arrived); i++ {
				if span := arrived[i].Sub(arrived[i-n]); span < time.Minute {
					t.Fatalf("%d within %v", n+1, span)
				}
			}
			if len(arrived) < n*windows*99/100 {
				t.Errorf("%d clients sent %d of %d", clients, len(arrived), n*windows)
			}
		})
	}
}
