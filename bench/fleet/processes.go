//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sharing is how well a number of processes shares a budget.
type sharing struct {
	processes int // 0: one, without a store
	budget    budget

	served    int64         // requests
	most      int64         // in any window
	over      int64         // of that above the limit
	used      float64       // of the windows in which more was wanted
	perOne    float64       // runs of the script for each request, without pulses
	script    time.Duration // a run of it
	half, far time.Duration // added when there is credit: p50, p99
	failed    int

	beyond int64 // over, but for requests that only came late: of windows of the clock
}

var sharedBudgets = []budget{
	{name: "fixed", yaml: "{requests: 300, per: 5s, as: fixed}", amount: 300, window: 5 * time.Second, size: 1000},
	{name: "rolling", yaml: "{requests: 300, per: 5s}", amount: 300, window: 5 * time.Second, rolling: true, size: 1000},
	{name: "bytes", yaml: "{bytes: 2MB, per: 5s}", amount: 2_000_000, window: 5 * time.Second, bytes: true, size: 20_000},
}

var minute = budget{name: "fixed per minute", yaml: "{requests: 3600, per: 1m, as: fixed}", amount: 3600, window: time.Minute, size: 1000}

// share measures one.
func (b *bed) share(ctx context.Context, processes int, of budget, windows int) (sharing, error) {
	defer b.clear()
	s := sharing{processes: processes, budget: of}
	site, err := b.originAt("site.test", of.size)
	if err != nil {
		return s, err
	}
	r, err := b.redisAt(ctx)
	if err != nil {
		return s, err
	}
	var members []*member
	for range max(processes, 1) {
		store := r.url()
		if processes == 0 {
			store = ""
		}
		m, err := b.memberAt(ctx, store, []rule{{origin: site, limit: of.yaml}})
		if err != nil {
			return s, err
		}
		members = append(members, m)
	}
	pause(ctx, 3500*time.Millisecond) // a store that is new gives nothing at first

	// More is wanted than there is.
	lasts := of.window
	rate := float64(of.amount) / of.window.Seconds()
	if of.bytes {
		rate /= float64(of.size) + 500
	}
	crowd := &crowd{
		host: "site.test", members: members, sessions: 5, length: 50, parallel: 4,
		think: time.Duration(20 / (1.6 * rate) * float64(time.Second)),
	}
	from := of.edge(of.edge(time.Now()).Add(time.Millisecond))
	if of.window >= time.Minute {
		from = of.edge(time.Now().Add(2 * time.Second))
	}
	to := from.Add(time.Duration(windows) * lasts)
	began := time.Now()
	var before, after ran
	var pulsed int64
	err = b.crowds(ctx, func(ctx context.Context) error {
		if err := until(ctx, from); err != nil {
			return err
		}
		if before, err = r.scripts(ctx); err != nil {
			return err
		}
		pulsed = -b.pulses(ctx, members)
		if err := until(ctx, to); err != nil {
			return err
		}
		pulsed += b.pulses(ctx, members)
		after, err = r.scripts(ctx)
		_ = until(ctx, to.Add(time.Second/2)) // what came too late is seen as well
		return err
	}, crowd)
	if err != nil {
		return s, err
	}
	_, s.failed = crowd.between(began, time.Now())
	events := site.seen(of.bytes)
	s.beyond = of.beyond(events, lateness)
	s.served = sum(site.seen(false), from, to)
	s.most, s.over, s.used = of.most(events), of.over(events), of.used(events, from, to)
	if s.served > 0 && processes > 0 {
		s.perOne = float64(after.since(before).calls-pulsed) / float64(s.served)
		s.script = after.since(before).each()
	}

	if b.brief || of.window >= time.Minute {
		return s, ctx.Err()
	}

	// Less is wanted than there is: what does the limit cost then?
	crowd.think *= 4
	crowd.samples = nil
	if of.rolling {
		pause(ctx, of.window)
	} else {
		_ = until(ctx, of.edge(time.Now()))
	}
	began = time.Now()
	err = b.crowds(ctx, func(ctx context.Context) error { return until(ctx, began.Add(2*of.window)) }, crowd)
	took, failed := crowd.between(began, time.Now())
	s.failed += failed
	direct := b.direct(ctx, site)
	s.half, s.far = part(took, 0.5)-direct, part(took, 0.99)-direct
	return s, err
}

// crowds run while do does something.
func (b *bed) crowds(ctx context.Context, do func(context.Context) error, list ...*crowd) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, c := range list {
		all.Go(func() { c.run(ctx) })
	}
	err := do(ctx)
	cancel()
	all.Wait()
	return err
}

// direct is what a request takes without a proxy: the median of some.
func (b *bed) direct(ctx context.Context, site *origin) time.Duration {
	m := &member{client: directly(site), out: make(chan struct{})}
	c := &crowd{host: "site.test"}
	for range 50 {
		c.get(ctx, m)
		pause(ctx, 5*time.Millisecond)
	}
	took, _ := c.between(time.Time{}, time.Now())
	return part(took, 0.5)
}

func (b *bed) pulses(ctx context.Context, members []*member) (n int64) {
	for _, m := range members {
		n += m.pulses(ctx)
	}
	return n
}

// shares measures all.
func (b *bed) shares(ctx context.Context, quick bool, wants func(string) bool, say func(string, ...any)) ([]sharing, error) {
	counts, budgets, windows := []int{0, 1, 4, 16}, sharedBudgets, 4
	if quick {
		counts, budgets, windows = []int{4}, sharedBudgets[:1], 1
	}
	var list []sharing
	add := func(n int, of budget, windows int) error {
		if !wants(fmt.Sprintf("processes, %d %s", n, of.name)) {
			return nil
		}
		s, err := b.share(ctx, n, of, windows)
		if err != nil {
			return fmt.Errorf("%d processes, %s: %w", n, of.name, err)
		}
		say("%d processes, %s: over %d, used %.1f %%, %.2f runs per request, %v", n, of.name, s.over, 100*s.used, s.perOne, s.far)
		list = append(list, s)
		return nil
	}
	for _, of := range budgets {
		for _, n := range counts {
			if err := add(n, of, windows); err != nil {
				return list, err
			}
		}
	}
	if quick {
		return list, nil
	}
	for _, n := range []int{4, 16} {
		if err := add(n, minute, 1); err != nil {
			return list, err
		}
	}
	return list, nil
}
