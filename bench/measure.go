package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// result is a scenario with what was measured in it.
type result struct {
	scenario
	Series []*series // of the peers that took part, in the scenario's order
}

// runner is a peer inside one scenario.
type runner struct {
	peer
	*series
	way  *way // nil while it does not run
	used int  // fresh hosts so far
}

// measure runs a scenario: all peers are started, warmed up, and then take
// turns for as many rounds as the pace says.
func (b *bed) measure(ctx context.Context, s scenario, taking []peer, p pace, say func(string, ...any)) (result, error) {
	if s.apart {
		return b.isolate(ctx, s, taking, p, say)
	}
	out := result{scenario: s}
	var runners []*runner
	defer func() {
		for _, r := range runners {
			r.end()
		}
	}()
	for _, one := range taking {
		r := &runner{peer: one, series: &series{Peer: one.name}}
		runners = append(runners, r)
		out.Series = append(out.Series, r.series)
		if !s.held {
			r.try(func() error { return b.begin(ctx, r, s, p) })
		}
	}
	rounds := s.rounds(p)
	if s.held {
		rounds = min(rounds, 3) // new processes each time, and memory is not noisy
	}
	for round := range rounds {
		for _, r := range runners {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			r.try(func() error {
				if s.held {
					return b.hold(ctx, r, s, p)
				}
				return b.load1(ctx, r, s, p)
			})
		}
		say("%s: round %d of %d", s.name, round+1, rounds)
	}
	for _, r := range runners {
		r.settle()
		r.Fault = strings.ReplaceAll(r.Fault, b.dir, "…") // the report names no paths
		if r.Fault != "" {
			say("%s: %s: %s", s.name, r.Peer, r.Fault)
		}
	}
	return out, ctx.Err()
}

// try does a step unless the peer has failed before in this scenario.
func (r *runner) try(step func() error) {
	if r.Fault != "" {
		return
	}
	if err := step(); err != nil {
		r.Fault = err.Error()
		r.Samples = nil
		r.end()
	}
}

func (r *runner) end() {
	if r.way != nil && r.way.Process != nil {
		r.way.stop()
	}
	r.way = nil
}

// begin starts the peer and warms it up.
func (b *bed) begin(ctx context.Context, r *runner, s scenario, p pace) error {
	way, err := r.start(ctx, b, s.intercept)
	if err != nil {
		return err
	}
	r.way = way
	j := r.job(s, p).warmup(p)
	j.Hold = false
	// One whole request first: a warm-up that a slow machine cuts short closes all connections
	// during their handshakes, which looks like a client that refuses the certificate.
	first := j
	first.Conns, first.Count, first.For = 1, 1, 0
	if _, err := b.do(first); err != nil {
		return err
	}
	_, err = b.do(j)
	return err
}

// job is the scenario's job, with hosts that this process has not seen.
func (r *runner) job(s scenario, p pace) job {
	j := s.job(r.way, p)
	j.First = r.used
	r.used += j.Count
	return j
}

// load1 takes one sample under load, and a second one instead when others were
// busy meanwhile.
func (b *bed) load1(ctx context.Context, r *runner, s scenario, p pace) error {
	sample, err := b.underLoad(ctx, r.way, r.job(s, p))
	for range p.repeats {
		if err != nil || !sample.noisy() {
			break
		}
		r.Dropped++
		sample, err = b.underLoad(ctx, r.way, r.job(s, p))
	}
	if err != nil {
		return err
	}
	r.Samples = append(r.Samples, sample)
	return nil
}

// reading is what the machine's books say at one moment.
type reading struct {
	proxy  process.Usage // zero for direct
	ours   process.Usage // the bench and all that it started
	clock  clock
	counts counts
}

func (b *bed) read(w *way) (reading, error) {
	var r reading
	var err error
	if r.counts, err = b.counts(false); err != nil {
		return r, err
	}
	if w.Process != nil {
		if r.proxy, err = process.UsageOf(w.ID()); err != nil {
			return r, fmt.Errorf("%w%s", err, w.Said)
		}
	}
	if r.ours, err = process.UsageOf(os.Getpid()); err != nil {
		return r, err
	}
	r.clock, err = readClock()
	return r, err
}

// underLoad runs one job and accounts for it.
func (b *bed) underLoad(ctx context.Context, w *way, j job) (sample, error) {
	before, err := b.read(w)
	if err != nil {
		return sample{}, err
	}
	out, err := b.do(j)
	if err != nil {
		return sample{}, err
	}
	// Connections that close leave the proxy work for a moment longer.
	if err := process.Pause(ctx, 30*time.Millisecond); err != nil {
		return sample{}, err
	}
	after, err := b.read(w)
	if err != nil {
		return sample{}, err
	}
	arrived := after.counts.since(before.counts)
	if arrived.Requests != out.Requests {
		return sample{}, fmt.Errorf("the generator had %d answers, the origin %d requests", out.Requests, arrived.Requests)
	}
	busy := after.clock.busySince(before.clock)
	all := after.clock.at.Sub(before.clock.at) * time.Duration(after.clock.cpus)
	return sample{
		Requests: out.Requests, Bytes: out.Bytes, Took: out.Took, P50: out.P50, P99: out.P99,
		CPU:       after.proxy.CPU - before.proxy.CPU,
		FromProxy: arrived.Conns,
		Others:    max(0, float64(busy-(after.ours.CPU-before.ours.CPU))/float64(all)),
	}, nil
}
