package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Whatever is told, learned, cooled and warmed while many wait, and whoever hangs up:
// all go in the end, each budget hears of each end of what was taken from it, and
// nothing is left behind.
func TestWhateverIsLearnedWhileManyWaitNobodyIsLost(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { learning(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func learning(t *testing.T, random *rand.Rand) {
	var version atomic.Uint64
	var mu sync.Mutex
	var budgets []*budget
	limits := func(v uint64) (all [][]Limit) {
		for token := range 3 {
			key := fmt.Sprint(token)
			makeMeter := func() limit.Meter {
				mu.Lock()
				defer mu.Unlock()
				b := newBudget(3, time.Minute)
				b.alone = v%3 == 0
				budgets = append(budgets, b)
				return b
			}
			all = append(all, []Limit{
				{Name: "ledger", Title: fmt.Sprint("ledger of ", v), Key: fmt.Sprint(v%5, token), Source: makeFunc(makeMeter), N: 1},
				{Name: "token", Key: key},
			})
		}
		return all
	}
	g := NewGate(Bounds{}, planFunc(func(Request) ([][]Limit, uint64) {
		v := version.Load()
		return limits(v), v
	}))
	var all sync.WaitGroup
	draw := rand.New(rand.NewPCG(random.Uint64(), 2))
	for i := range 60 {
		took, again, hangUp := upTo(draw, 5*time.Second), draw.IntN(3) == 0, draw.IntN(6) == 0
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if hangUp {
				time.AfterFunc(10*took, cancel)
			}
			v := version.Load()
			p, err := g.Wait(ctx, Request{Site: "a", Client: fmt.Sprint(i % 4), Limits: limits(v), Version: v})
			if err != nil {
				return
			}
			defer p.Finish(Result{})
			time.Sleep(took)
			p.Sent()
			p.Update([]Update{{Limit: limits(version.Load())[p.Choice()][0], Apply: says(int64(i%3), took)}})
			if again && p.Again(ctx, Retry{Cool: Scope{"token", "1"}, Until: time.Now().Add(took), Result: Result{Outcome: limit.Refused}}) == nil {
				time.Sleep(took)
			}
		})
	}
	teacher := allow(t, g, Request{Site: "a"})
	defer teacher.Finish(Result{})
	for range 100 {
		time.Sleep(upTo(random, 2*time.Second))
		at := Scope{"token", fmt.Sprint(random.IntN(3))}
		switch random.IntN(6) {
		case 0:
			g.Replan("a", version.Add(1))
		case 1:
			g.CoolAll(at, time.Now().Add(upTo(random, time.Minute)), "quarantine")
		case 2:
			g.EndCooldowns(at)
		case 3:
			g.VisitResources(func(time.Time, ResourceInfo) {})
		default:
			l := limits(uint64(random.IntN(5)))[random.IntN(3)][0]
			teacher.Update([]Update{{Limit: l, Apply: says(random.Int64N(4), upTo(random, time.Minute))}})
		}
	}
	all.Wait()
	nobodyWaits(t, g)
	for _, b := range budgets {
		if b.flying != 0 || len(b.taken) != 0 {
			t.Errorf("%d are in flight when all are over: %v", b.flying, b.taken)
		}
	}
}

// Meters of tokens that rest are not made anew for every request.
func TestTokensThatRestAreNotForgottenAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, made := NewGate(Bounds{}, nil), 0
		r := Request{Site: "a"}
		for token := range 100 {
			r.Limits = append(r.Limits, []Limit{{
				Name: "ledger", Key: fmt.Sprint(token), N: 1,
				Source: makeFunc(func() limit.Meter { made++; return newBudget(1, time.Millisecond) }),
			}})
		}
		r.Needs = Compile(r.Limits)
		for range 900 {
			allow(t, g, r).Finish(Result{})
			time.Sleep(time.Millisecond)
		}
		if made > 300 {
			t.Errorf("%d meters were made for 100 tokens", made)
		}
	})
}

func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}
