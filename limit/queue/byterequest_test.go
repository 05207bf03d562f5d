package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Whatever byte requests, gives back, hangs up and changes: no window gives more than it
// has, the meters hear of what waits and no more, and in the end nothing is left.
func TestWhateverIsDrawnNoWindowGivesMore(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { drawing(t, rand.New(rand.NewPCG(seed, 4))) })
	}
}

// sums are what was taken of a limit in each window.
type sums struct {
	mu   sync.Mutex
	list map[int64]int64
}

func (s *sums) add(at time.Time, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[at.Unix()/10] += n
}

func drawing(t *testing.T, random *rand.Rand) {
	const amount = 1000
	drawn := sums{list: map[int64]int64{}}
	kept := vaults{give: func(v *vault) { v.credit = 500 }}
	ours := rand.New(rand.NewPCG(random.Uint64(), 6)) // under the site's lock
	limits := func() [][]Limit {
		return [][]Limit{{
			{Name: "all", Of: Bytes, N: 50, Spec: &limit.Spec{As: limit.Fixed, Amount: amount, Window: 10 * time.Second}},
			{Name: "of a client", By: ByClient, Of: Bytes, Spec: &limit.Spec{As: limit.Rolling, Amount: 1 + ours.Int64N(900), Window: 7 * time.Second}, Source: externalFunc(kept.keep)},
		}}
	}
	plan := plans(func(Request) [][]Limit { return limits() })
	g := NewGate(Bounds{}, plan)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 12 {
		ours := rand.New(rand.NewPCG(random.Uint64(), 5))
		all.Go(func() {
			source := g.ByteSource(Request{Site: "a", Client: fmt.Sprint(i % 3), Generation: 1 << 40})
			defer source.Close()
			for range 30 {
				time.Sleep(upTo(ours, time.Second))
				until := time.Time{}
				if ours.IntN(4) == 0 {
					until = time.Now().Add(upTo(ours, 20*time.Second))
				}
				n, least := 1+ours.Int64N(300), ours.Int64N(100)
				got, err := source.Draw(ctx.Done(), Draw{Most: n, Least: least, Until: until})
				if (got > 0) == (err != nil) || got > n || got > 0 && got < min(n, least, 1) {
					t.Errorf("%d of %d, %v", got, n, err)
				}
				drawn.add(time.Now(), got)
				if ours.IntN(3) == 0 && got > 0 { // at once, in the same window
					back := ours.Int64N(got + 1)
					drawn.add(time.Now(), -back)
					source.Refund(back)
				}
				_, _, _ = source.Forecast(1000)
			}
		})
		other := rand.New(rand.NewPCG(random.Uint64(), 7))
		all.Go(func() {
			for range 10 {
				time.Sleep(upTo(other, 10*time.Second))
				p, err := g.Wait(ctx, Request{Site: "a", Client: fmt.Sprint(i % 3), Generation: 1 << 40})
				if err != nil {
					continue
				}
				drawn.add(time.Now(), 50)
				p.Finish(Result{})
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	for round := 0; ; round++ {
		select {
		case <-over:
			stop()
			check(t, g, &kept, true)
			for window, n := range drawn.list {
				if n > amount {
					t.Errorf("window %d gave %d", window, n)
				}
			}
			nobodyWaits(t, g)
			return
		case <-time.After(upTo(random, 3*time.Second)):
		}
		if random.IntN(5) == 0 {
			g.Reload(Bounds{}, plan)
		} else {
			g.UpdateExternal("a", func(time.Time) {
				for _, v := range kept.list {
					v.credit = min(v.credit+random.Int64N(500), 1000)
				}
			})
		}
		if round > 2000 {
			t.Error("it does not end")
			stop()
		}
		synctest.Wait()
		check(t, g, &kept, false)
	}
}

// check compares what meters have heard with what waits for them.
func check(t *testing.T, g *Gate, kept *vaults, over bool) {
	t.Helper()
	s := g.lock("a")
	defer s.mu.Unlock()
	for _, e := range s.registry.byScope {
		if v, ok := e.resource.meter.(*vault); ok {
			last := int64(0)
			if len(v.heard) > 0 {
				last = v.heard[len(v.heard)-1]
			}
			if last != e.resource.demandNow() {
				t.Errorf("it heard of %d, %d wait", last, e.resource.demandNow())
			}
		}
		if over && (e.resource.users != 0 || e.resource.waitingBytes != 0 || e.resource.waitlist != nil) {
			t.Errorf("%d use it in the end, %d wait", e.resource.users, e.resource.waitingBytes)
		}
	}
	if over && (len(s.sched.byteQueue.byteRequests)+len(s.sched.byteQueue.blockedResources)+s.sources > 0) {
		t.Error("something is left of the draws")
	}
}
