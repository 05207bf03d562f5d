//go:build linux

package main

import (
	"context"
	"math/rand"
	"time"
	"unsafe"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

// crawl is instances in virtual time. Their accounts, the store and its script are the
// real ones, and so is the redis-server; time and the network between are not.
type crawl struct {
	name      string
	instances int
	spec      limit.Spec
	yaml      string
	bytes     bool // requests of some bytes each
	sessions  int
	windows   int
	clocks    bool // are off by up to a minute, and jump
}

// crawled is what was measured.
type crawled struct {
	crawl
	fleet.Result
	over   int64
	script time.Duration // of the server, for each request, what pulses take included
	took   time.Duration
}

func crawls(quick bool) []crawl {
	fixed := func(n int64, window time.Duration) limit.Spec {
		return limit.Spec{As: limit.Fixed, Amount: n, Window: window}
	}
	small := []crawl{
		{instances: 100, spec: fixed(600, time.Minute), yaml: "{requests: 600, per: 1m, as: fixed}", sessions: 4, windows: 10},
	}
	if quick {
		small[0].windows = 2
		return small
	}
	for _, n := range []int{100, 1000} {
		if n > 100 {
			small = append(small, crawl{instances: n, spec: fixed(600, time.Minute), yaml: "{requests: 600, per: 1m, as: fixed}", sessions: 4, windows: 10})
		}
		small = append(small,
			crawl{instances: n, spec: fixed(3000, time.Minute), yaml: "{requests: 3000, per: 1m, as: fixed}", sessions: 4, windows: 10},
			crawl{instances: n, spec: fixed(3000, time.Minute), yaml: "{requests: 3000, per: 1m, as: fixed}", sessions: 40, windows: 10},
			crawl{instances: n, spec: fixed(9000, 15*time.Minute), yaml: "{requests: 9000, per: 15m, as: fixed}", sessions: 4, windows: 3},
			crawl{instances: n, spec: limit.Spec{As: limit.Rolling, Amount: 3000, Window: time.Minute}, yaml: "{requests: 3000, per: 1m}", sessions: 4, windows: 10},
			crawl{instances: n, spec: fixed(1_000_000, time.Minute), yaml: "{bytes: 1MB, per: 1m}, 2 to 30 kB each", bytes: true, sessions: 4, windows: 10},
		)
	}
	return append(small, crawl{
		name: "clocks off by up to a minute, and set every few seconds", instances: 100, spec: fixed(3000, time.Minute),
		yaml: "{requests: 3000, per: 1m, as: fixed}", sessions: 4, windows: 10, clocks: true,
	})
}

// virtual measures all.
func (b *bed) virtual(ctx context.Context, quick bool, say func(string, ...any)) ([]crawled, error) {
	var list []crawled
	for _, c := range crawls(quick) {
		item, err := b.crawls(ctx, c)
		if err != nil {
			return list, err
		}
		say("%d instances in virtual time, %s, %d sessions: over %d, used %.1f %%, %.2f runs per request, in %v",
			c.instances, c.yaml, c.sessions, item.over, 100*item.Utilisation, item.PerRequest, item.took.Round(time.Millisecond))
		list = append(list, item)
	}
	return list, nil
}

func (b *bed) crawls(ctx context.Context, c crawl) (crawled, error) {
	defer b.clear()
	out := crawled{crawl: c}
	r, err := b.redisAt(ctx)
	if err != nil {
		return out, err
	}
	var shared *store.Redis
	var wrong error
	var events []event
	began := time.Now()
	begin := time.Date(2026, time.March, 14, 15, 9, 26, 535897932, time.UTC)
	s := fleet.Sessions{
		Options: fleet.Options{
			Seed: 7, Begin: begin,
			Budgets: []fleet.Budget{{Key: "budget", Outage: lease.Strict, Spec: c.spec}},
			Network: fleet.Network{Delay: func(r *rand.Rand) time.Duration {
				return 300*time.Microsecond + time.Duration(r.Int63n(int64(500*time.Microsecond)))
			}},
			Taken: func(t fleet.Take) { events = append(events, event{t.At, t.N}) },
		},
		Store: func(now func() time.Time) store.Store {
			shared, wrong = store.NewRedis(&policy.Store{Hosts: []string{r.at}}, now)
			if wrong != nil {
				return reference.New(now)
			}
			return shared
		},
		Instances: c.instances, Key: "budget", AtOnce: c.sessions, Warm: 2, Windows: c.windows,
	}
	if c.bytes {
		rnd := rand.New(rand.NewSource(11))
		for range 1000 {
			s.Units = append(s.Units, fleet.Need{"budget": 2000 + rnd.Int63n(28_000)})
		}
	}
	if c.clocks {
		s.Options.Clock = wildly(begin, c.instances)
	}
	out.Result = s.Run()
	if wrong != nil {
		return out, wrong
	}
	defer shared.Close()
	out.took = time.Since(began)
	did, err := r.scripts(ctx)
	out.script = did.took / time.Duration(max(out.Requests, 1))
	of := budget{amount: c.spec.Amount, window: c.spec.Window, rolling: c.spec.As == limit.Rolling}
	out.over = of.over(events)
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}

// wildly is clocks that are off by up to a minute, and are set every few seconds. What
// has passed they know.
func wildly(begin time.Time, instances int) func(int, time.Time) time.Time {
	rnd := rand.New(rand.NewSource(3))
	off, next := make([]time.Duration, instances), make([]time.Time, instances)
	return func(i int, now time.Time) time.Time {
		if now.After(next[i]) {
			off[i] = time.Duration(rnd.Int63n(int64(2*time.Minute))) - time.Minute
			next[i] = now.Add(time.Duration(rnd.Int63n(int64(20 * time.Second))))
		}
		return reading(now.Add(off[i]), now.Sub(begin)+time.Duration(i)*time.Hour)
	}
}

// reading is a time as time.Now makes it, whose clock on the wall need not agree with
// what has passed: the language has no other way to make one.
func reading(wall time.Time, passed time.Duration) time.Time {
	const since1885 = 2682288000 // seconds from there until 1970
	t := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{1<<63 | uint64(wall.Unix()+since1885)<<30 | uint64(wall.Nanosecond()), int64(passed) + 1, time.UTC}
	return *(*time.Time)(unsafe.Pointer(&t))
}
