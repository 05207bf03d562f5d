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

// reserving is a request that takes so many bytes before it goes.
func reserving(n, amount int64) Request {
	return Request{Site: "a", Client: "x", Limits: [][]Limit{{
		{Name: "bytes", Of: Bytes, N: n, Spec: &limit.Spec{As: limit.Fixed, Amount: amount, Window: time.Minute}},
	}}}
}

func let(t *testing.T, g *Gate, r Request) *Permit {
	t.Helper()
	r.Wait = time.Millisecond
	p, err := g.Wait(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhatWasReservedGoesBackWhenTheAnswerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Minute)
		source := g.ByteSource(reserving(0, 1000))
		defer source.Close()
		p := let(t, g, reserving(600, 1000))
		if left := source.Left(); left != 400 {
			t.Errorf("%d are left", left)
		}
		p.Unreserve()
		p.Unreserve()
		if left := source.Left(); left != 1000 {
			t.Errorf("%d are left", left)
		}
		p.Finish(Result{Outcome: limit.Success, Bytes: 300, Exact: true}) // byte sources have taken them
		if left := source.Left(); left != 1000 {
			t.Errorf("%d are left", left)
		}
	})
}

// Requests that were let go and have not been answered keep nothing from those under
// way, which they are themselves.
func TestDrawsHaveWhatIsLentIfThereIsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Minute)
		source := g.ByteSource(reserving(0, 1000))
		defer source.Close()
		kept := let(t, g, reserving(300, 1000)) // somebody else sends it
		var lent []*Permit
		for range 2 {
			p := let(t, g, reserving(300, 1000))
			p.OfferReserved()
			p.OfferReserved()
			lent = append(lent, p)
		}
		expect(t, draws(t, source, 100, 1), "100 after 0s") // which nobody had
		expect(t, draws(t, source, 50, 1), "50 after 0s")
		if left := source.Left(); left != 250 {
			t.Errorf("%d are left", left)
		}
		expect(t, draws(t, source, 1000, 1), "250 after 0s")
		lent[0].Unreserve() // too late
		expect(t, draws(t, source, 1000, 1), "300 after 0s")
		lent[1].Finish(Result{Outcome: limit.Success})
		waits := draws(t, source, 1000, 1)
		kept.Finish(Result{Outcome: limit.Success, Bytes: 100, Exact: true})
		expect(t, waits, "200 after 0s")
		expect(t, draws(t, source, 1000, 1), fmt.Sprint("1000 after ", time.Minute))
		lent[0].Finish(Result{Outcome: limit.Success})
		if n := len(source.site.sched.byteQueue.offered); n != 0 {
			t.Errorf("%d are still lent", n)
		}
	})
}

func TestADrawThatWaitsHasWhatIsLentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Minute)
		source := g.ByteSource(reserving(0, 1000))
		defer source.Close()
		p, err := g.Wait(t.Context(), reserving(1000, 1000))
		if err != nil {
			t.Fatal(err)
		}
		waits := draws(t, source, 400, 1)
		p.OfferReserved()
		expect(t, waits, "400 after 0s")
		if left := source.Left(); left != 600 {
			t.Errorf("%d are left", left)
		}
		// Sent again, it takes anew, in the next minute.
		if err := p.Again(t.Context(), Retry{Result: Result{Outcome: limit.Failed}}); err != nil || source.Left() != 0 {
			t.Errorf("%v, %d are left", err, source.Left())
		}
		p.OfferReserved()
		expect(t, draws(t, source, 400, 1), "400 after 0s")
		p.Finish(Result{Outcome: limit.Success})
	})
}

// What is lent of one limit helps nobody who waits for another.
func TestOnlyWhatHelpsIsTakenOfWhatIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Minute)
		r := reserving(600, 1000)
		other := reserving(0, 1000)
		other.Limits[0] = append(other.Limits[0], Limit{Name: "less", Of: Bytes, Spec: &limit.Spec{As: limit.Fixed, Amount: 100, Window: time.Minute}})
		source := g.ByteSource(other)
		defer source.Close()
		p := let(t, g, r)
		p.OfferReserved()
		expect(t, draws(t, source, 400, 1), "100 after 0s")
		waits := draws(t, source, 400, 1)
		s := g.lock("a")
		left := source.resources[0].meter.Left(time.Now())
		s.mu.Unlock()
		if left != 300 {
			t.Errorf("%d are left of the larger one", left)
		}
		expect(t, waits, fmt.Sprint("100 after ", time.Minute))
		p.Finish(Result{Outcome: limit.Success})
	})
}

// Whatever is reserved, lent, taken and ends, no window has more than its limit, and
// in the end everything is there again.
func TestWhateverIsLentNoWindowHasMore(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { lending(t, seed) })
	}
}

func lending(t *testing.T, seed uint64) {
	const amount = 1000
	g := NewGate(Bounds{}, nil)
	begin(time.Minute)
	drawn := sums{list: map[int64]int64{}}
	var all sync.WaitGroup
	for i := range uint64(10) {
		ours := rand.New(rand.NewPCG(seed, i))
		all.Go(func() {
			source := g.ByteSource(reserving(0, amount))
			defer source.Close()
			for range 20 {
				time.Sleep(upTo(ours, 10*time.Second))
				p, err := g.Wait(context.Background(), reserving(1+ours.Int64N(amount/2), amount))
				if err != nil {
					t.Error(err)
					return
				}
				p.OfferReserved()
				for range ours.IntN(4) {
					n, err := source.Draw(nil, Draw{Most: 1 + ours.Int64N(200), Least: 1})
					if err != nil {
						t.Error(err)
						return
					}
					drawn.add(time.Now(), n)
					time.Sleep(upTo(ours, time.Second))
				}
				if ours.IntN(2) == 0 {
					p.Unreserve()
				}
				p.Finish(Result{Outcome: limit.Success, Unsent: ours.IntN(4) == 0, Exact: true})
			}
		})
	}
	all.Wait()
	windows := map[int64]int64{}
	for at, n := range drawn.list {
		windows[at/6] += n
	}
	for at, n := range windows {
		if n > amount {
			t.Errorf("%d bytes in window %d", n, at)
		}
	}
	time.Sleep(time.Minute)
	s := g.lock("a")
	defer s.mu.Unlock()
	if len(s.sched.byteQueue.offered) > 0 || !s.sched.restsAnd((*resource).forgettable, time.Now()) {
		t.Errorf("%d are lent in the end", len(s.sched.byteQueue.offered))
	}
}
