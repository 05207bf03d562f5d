package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// holdStep is how many requests are sent before the bench waits for them to
// reach the origin. All at once, it would be a contest of TLS handshakes, and
// some proxy or other would give up on an origin that cannot keep pace.
const holdStep = 250

// hold measures the memory of requests in flight, in a process that has done
// nothing else.
func (b *bed) hold(ctx context.Context, r *runner, s scenario, p pace) error {
	defer r.end()
	way, err := r.start(ctx, b, s.intercept)
	if err != nil {
		return err
	}
	r.way = way
	// Two requests first: what is made once is not part of the price of each.
	first := s.job(way, p)
	first.Hold, first.Count = false, 2
	if _, err := b.do(first); err != nil {
		return err
	}
	if err := process.Pause(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	before, err := b.read(way)
	if err != nil {
		return err
	}
	after, err := b.fill(ctx, way, s.job(way, p))
	// Whatever went wrong, what is held is let go, as the origin and the
	// generator outlive this peer.
	out, letGo := b.letGo(ctx)
	if err := errors.Join(err, letGo); err != nil {
		return err
	}
	if out.Requests != after.counts.Held {
		return fmt.Errorf("%d of %d held requests were answered", out.Requests, after.counts.Held)
	}
	r.Samples = append(r.Samples, sample{
		Requests: out.Requests, Bytes: out.Bytes, Took: out.Took,
		Held:      after.counts.Held,
		Growth:    after.proxy.Resident - before.proxy.Resident,
		FromProxy: after.counts.since(before.counts).Conns,
	})
	return nil
}

// fill brings as many requests into flight as the job counts, and reads the
// books when memory has settled.
func (b *bed) fill(ctx context.Context, w *way, j job) (reading, error) {
	all := j.Count
	for j.First < all {
		j.Count = min(holdStep, all-j.First)
		if _, err := b.do(j); err != nil {
			return reading{}, err
		}
		j.First += j.Count
		if err := b.allHeld(ctx, j.First); err != nil {
			return reading{}, err
		}
	}
	if err := process.Pause(ctx, time.Second); err != nil {
		return reading{}, err
	}
	return b.read(w)
}

// allHeld waits until so many requests are in flight at the origin.
func (b *bed) allHeld(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		c, err := b.counts(false)
		if err != nil || c.Held == int64(want) {
			return err
		}
		if err := process.Pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d requests are in flight instead of %d: %w", c.Held, want, err)
		}
	}
}

// letGo has the origin answer what it holds, and the generator read that.
func (b *bed) letGo(ctx context.Context) (outcome, error) {
	if _, err := b.counts(true); err != nil {
		return outcome{}, err
	}
	out, err := b.do(job{Finish: true})
	return out, errors.Join(err, b.allHeld(ctx, 0))
}
