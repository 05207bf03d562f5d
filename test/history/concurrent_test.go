package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
)

// caller asks a store as an abide does, with anything that it may want.
type caller struct {
	id         string
	store      store.Store
	random     *rand.Rand
	seq        uint64
	generation string
	asks       []store.Ask // what it asked last of each budget, with what it holds
}

// ask asks for some of one or two budgets, and takes the answer. Without one it does not know what was done.
func (c *caller) ask() {
	b := store.Batch{Site: site, Instance: c.id, Generation: c.generation}
	first := c.random.IntN(len(c.asks))
	for i := range 1 + c.random.IntN(2) {
		a := &c.asks[(first+i)%len(c.asks)]
		c.seq++
		a.Seq, a.Want, a.Ahead, a.Waits = c.seq, c.random.Int64N(30), c.random.Int64N(10), c.random.Int64N(5)
		b.Asks = append(b.Asks, *a)
	}
	replies, err := c.store.Exchange(context.Background(), []store.Batch{b})
	if err != nil {
		return
	}
	c.generation = replies[0].Generation
	for _, said := range replies[0].Answers {
		for i := range c.asks {
			if a := &c.asks[i]; a.Key == said.Key && (said.Status == store.Done || said.Status == store.Foreign) {
				a.Birth, a.Seen, a.Past = said.Birth, said.Now, 0
				a.Counted, a.Held = store.Holding{Window: said.Window, N: max(a.Amount-said.Remaining, 0)}, said.Granted
				a.Holds = append([]store.Holding{{Window: said.Window, N: c.random.Int64N(said.Granted + 1)}}, said.Later...)
			}
		}
	}
}

// Callers that ask at the same time, while connections are cut in the middle of an exchange and the store loses
// everything, budgets or a part of what it knows of them.
func TestARedisIsLinearizableWhenManyAskAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for seed := range uint64(histories(4)) {
		random := rand.New(rand.NewPCG(seed, 3))
		var now atomic.Int64 // in nanoseconds since 1970
		now.Store(crewBegin.UnixNano())
		clock := func() time.Time { return time.Unix(0, now.Load()) }
		h := &trace{now: clock}
		server.Do("FLUSHALL")
		var callers []*caller
		for i := range 6 {
			r, err := store.NewRedis(&policy.Store{Hosts: []string{server.Addr}}, clock)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			callers = append(callers, &caller{
				id: fmt.Sprint("i", i), store: &recorded{r, h, i}, random: rand.New(rand.NewPCG(seed, uint64(i))),
				asks: []store.Ask{
					{Key: "fixed", Kind: store.Fixed, Amount: 50, Window: 5 * time.Second, Past: 1<<63 - 1},
					{Key: "rolling", Kind: store.Rolling, Amount: 50, Window: 5 * time.Second, Slots: 20, Lasts: 2, Past: 1<<63 - 1},
					{Key: "fixed 2", Kind: store.Fixed, Amount: 7, Window: time.Second, Past: 1<<63 - 1},
				},
			})
		}
		crew := &crew{trace: h, server: server}
		for range 12 {
			var round sync.WaitGroup
			for _, c := range callers {
				round.Go(func() {
					for range 3 {
						c.ask()
					}
				})
			}
			round.Go(func() {
				switch random.IntN(12) {
				case 0, 1:
					server.Do("CLIENT", "KILL", "TYPE", "normal")
				case 2:
					h.became(loses, "", func() { server.Do("FLUSHALL") })
				case 3:
					crew.remove(evicts, budgetKeys)
				case 4:
					crew.remove(forgets, endsKey)
				case 5:
					crew.remove(removes, budgetKeys, endsKey)
				case 6:
					crew.remove(renews, lifeKey)
				}
			})
			round.Wait()
			now.Add(random.Int64N(int64(1500 * time.Millisecond)))
		}
		h.linear(t)
		lost := 0
		for _, o := range h.operations {
			if o.Batch != nil && o.Reply == nil {
				lost++
			}
		}
		t.Logf("seed %d: %d operations, of which %d have no answer", seed, len(h.operations), lost)
		if t.Failed() {
			return
		}
	}
}
