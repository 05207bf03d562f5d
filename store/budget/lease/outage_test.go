package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

// crowd is four instances that want twice as much of a limit as there is.
type crowd struct {
	*fleet.Fleet
	t        *testing.T
	spec     limit.Spec
	memory   *refusing
	sums     map[int64]int64 // :: window
	begin    time.Time
	takes    []fleet.Take
	accounts []*lease.Account
	delay    time.Duration // of an answer
	members  int
	offset   time.Duration // of the store's clock
}

// refusing is a store that may answer with an error.
type refusing struct {
	store.Store
	refuses bool
}

var errRefused = errors.New("refused")

func (r *refusing) Exchange(ctx context.Context, list []store.Batch) ([]store.Reply, error) {
	if r.refuses {
		return nil, errRefused
	}
	return r.Store.Exchange(ctx, list)
}

func (r *refusing) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	if r.refuses {
		return store.Pulse{}, errRefused
	}
	return r.Store.Pulse(ctx, m)
}

var fiveSeconds = limit.Spec{As: limit.Fixed, Amount: 150, Window: 5 * time.Second}

func newCrowd(t *testing.T, spec limit.Spec, outage lease.Outage, delay time.Duration) *crowd {
	c := &crowd{t: t, spec: spec, sums: map[int64]int64{}, begin: begin.Truncate(time.Minute), delay: delay, members: 4}
	c.Fleet = fleet.New(fleet.Options{
		Seed: 3, Begin: c.begin,
		Network: fleet.Network{
			Delay:   func(*rand.Rand) time.Duration { return c.delay / 2 },
			Timeout: 2 * time.Second,
		},
		Budgets: []fleet.Budget{{Key: "requests", Spec: spec, Outage: outage}},
		Taken: func(take fleet.Take) {
			c.sums[c.window(take.At)] += take.N
			c.takes = append(c.takes, take)
		},
		Account: func(a *lease.Account) { c.accounts = append(c.accounts, a) },
	})
	c.memory = &refusing{Store: reference.New(func() time.Time { return c.Now().Add(c.offset) })}
	c.Store = c.memory
	c.Start(c.members)
	rnd := rand.New(rand.NewSource(5))
	rate := 2 * float64(spec.Amount) / spec.Window.Seconds() / float64(c.members)
	for i := range c.members {
		var next func()
		next = func() {
			if c.Waiting(i) < 20 {
				c.Request(i, fleet.Need{"requests": 1})
			}
			c.At(time.Duration(rnd.ExpFloat64()/rate*float64(time.Second)), next)
		}
		next()
	}
	return c
}

func (c *crowd) window(at time.Time) int64 { return int64(at.Sub(c.begin) / c.spec.Window) }

// within is the most that was taken in any interval of a length.
func (c *crowd) within(length time.Duration) (most int64) {
	sum, first := int64(0), 0
	for _, one := range c.takes {
		for sum += one.N; one.At.Sub(c.takes[first].At) >= length; first++ {
			sum -= c.takes[first].N
		}
		most = max(most, sum)
	}
	return most
}

// check tells what was used of the windows from one to another, and whether one had
// more than so much.
func (c *crowd) check(from, to, most int64) (used float64) {
	c.t.Helper()
	total := int64(0)
	for w := from; w < to; w++ {
		total += c.sums[w]
		if c.sums[w] > most {
			c.t.Errorf("%d of %d in the window %d", c.sums[w], c.spec.Amount, w)
		}
	}
	return float64(total) / float64(c.spec.Amount*(to-from))
}

var outages = map[string]lease.Outage{"share": lease.Share, "strict": lease.Strict, "open": lease.Open}

// A store that is slow is there: what it grants is all that goes, and all of that goes.
func TestASlowStoreIsWaitedFor(t *testing.T) {
	for name, outage := range outages {
		for _, delay := range []time.Duration{0, 45 * time.Millisecond, 60 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", delay), func(t *testing.T) {
				c := newCrowd(t, fiveSeconds, outage, delay)
				c.Run(13 * c.spec.Window)
				c.check(1, 2, c.spec.Amount) // the store is new before
				used := c.check(2, 13, c.spec.Amount)
				if used < 0.97 {
					t.Errorf("%.1f %% used", 100*used)
				}
				t.Logf("%.1f %% used, %d exchanges for %d requests", 100*used, c.Count.Exchanges, c.Count.Requests)
			})
		}
	}
}

// Whatever way the store is away, and however it comes back: strict never has too much,
// and share only where nobody can know what the others have taken.
func TestTheStoreIsAwayAndComesBack(t *testing.T) {
	ways := map[string]struct{ away, back func(*crowd) }{
		"answers nothing": {func(c *crowd) { c.Cut(true) }, func(c *crowd) { c.Cut(false) }},
		"frozen":          {func(c *crowd) { c.FreezeStore() }, func(c *crowd) { c.ThawStore() }},
		"refuses":         {func(c *crowd) { c.memory.refuses = true }, func(c *crowd) { c.memory.refuses = false }},
	}
	for way, do := range ways {
		for name, outage := range outages {
			for _, after := range []time.Duration{10 * time.Second, 11 * time.Second, 12500 * time.Millisecond, 14900 * time.Millisecond} {
				for _, long := range []time.Duration{900 * time.Millisecond, 1500 * time.Millisecond, 2100 * time.Millisecond, 20 * time.Second, 21700 * time.Millisecond, 23 * time.Second} {
					t.Run(fmt.Sprint(way, " ", name, " ", after, " ", long), func(t *testing.T) {
						c := newCrowd(t, fiveSeconds, outage, time.Millisecond)
						c.Run(after)
						do.away(c)
						c.Run(long)
						do.back(c)
						c.Run(60*time.Second - after - long)
						away, back := c.window(c.begin.Add(after)), c.window(c.begin.Add(after+long))
						switch outage {
						case lease.Strict:
							c.check(1, 12, c.spec.Amount)
						case lease.Share:
							// Each of them has a quarter of what was left when it heard that.
							c.check(away, away+1, c.spec.Amount*2)
							c.check(1, away, c.spec.Amount)
							c.check(away+1, 12, c.spec.Amount)
						case lease.Open:
							c.check(1, away, c.spec.Amount)
							c.check(back+2, 12, c.spec.Amount)
						}
						if used := c.check(back+2, 12, c.spec.Amount); used < 0.97 {
							t.Errorf("%.1f %% used afterwards", 100*used)
						}
						t.Log(c.sums)
					})
				}
			}
		}
	}
}

// A budget that the store has lost is not spent twice, and a newcomer does not get what
// others have.
func TestTheStoreLosesABudget(t *testing.T) {
	for what, lose := range map[string]func(*crowd){
		"a key":      func(c *crowd) { c.memory.Store.(*reference.Store).Evict("api.example") },
		"everything": func(c *crowd) { c.memory.Store.(*reference.Store).Lose() },
	} {
		for _, as := range []limit.As{limit.Fixed, limit.Rolling} {
			for name, outage := range outages {
				for _, after := range []time.Duration{41 * time.Second, 47 * time.Second, 59500 * time.Millisecond} {
					t.Run(fmt.Sprint(what, " ", as, " ", name, " ", after), func(t *testing.T) {
						c := newCrowd(t, limit.Spec{As: as, Amount: 50, Window: 20 * time.Second}, outage, time.Millisecond)
						c.Run(after)
						lose(c)
						c.Start(1)
						for range 30 {
							c.Request(4, fleet.Need{"requests": 1})
						}
						c.Run(140*time.Second - after)
						if outage == lease.Open {
							return // it goes on while the store settles
						}
						if most := c.within(20 * time.Second); as == limit.Rolling && most > 50 {
							t.Errorf("%d within a window", most)
						}
						if used := c.check(1, 7, 50); used < 0.94 {
							t.Errorf("%.1f %% used: %v", 100*used, c.sums)
						}
					})
				}
			}
		}
	}
}
