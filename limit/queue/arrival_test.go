package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// origin counts what arrives, which is some time after it was granted.
type origin struct {
	mu      sync.Mutex
	arrived []time.Time
}

func (o *origin) hear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrived = append(o.arrived, time.Now())
}

// An origin that counts arrivals refuses nothing, however unequal the ways are,
// and nearly all that it allows is used.
func TestAnOriginThatCountsArrivalsRefusesNothing(t *testing.T) {
	const n, latency = 100, 50 * time.Millisecond
	for _, as := range []limit.As{limit.Rolling, limit.Fixed} {
		for _, window := range []time.Duration{time.Second, time.Minute} {
			t.Run(fmt.Sprint(as, " ", window), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g, spec := NewGate(Bounds{}, nil), &limit.Spec{As: as, Amount: n, Window: window}
					var o origin
					random := rand.New(rand.NewPCG(1, 2))
					ways := make([]time.Duration, 200)
					for i := range ways {
						ways[i] = time.Duration(random.Int64N(int64(min(latency, window/128))))
					}
					start := time.Now()
					const windows = 100
					ctx, stop := context.WithDeadline(t.Context(), start.Add(windows*window))
					defer stop()
					var all sync.WaitGroup
					for i, way := range ways {
						all.Go(func() {
							for {
								p, err := g.Wait(ctx, asks("a", fmt.Sprint(i%7), spec))
								if err != nil {
									return
								}
								time.Sleep(way)
								o.hear()
								time.Sleep(latency - way)
								p.Finish(Result{})
							}
						})
					}
					all.Wait()
					slices.SortFunc(o.arrived, time.Time.Compare)
					for i := n; i < len(o.arrived); i++ {
						first, last := o.arrived[i-n], o.arrived[i]
						if as == limit.Rolling && last.Sub(first) < window ||
							as == limit.Fixed && first.Truncate(window).Equal(last.Truncate(window)) {
							t.Fatalf("%d arrived from %v to %v", n+1, first.Sub(start), last.Sub(start))
						}
					}
					if len(o.arrived) < n*windows*99/100 {
						t.Errorf("%d of %d were sent", len(o.arrived), n*windows)
					}
				})
			})
		}
	}
}
