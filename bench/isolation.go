package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

const (
	// besideQueue is abide while the queue of another site is full.
	besideQueue = "abide, queue full"

	busyFlight = 32   // requests that the busy site is sent and does not answer
	busyQueue  = 2000 // that wait behind those: the default of queue.per_site
)

// isolate measures one site by turns while nothing waits for another and while
// the queue of that one is full, all in one process.
func (b *bed) isolate(ctx context.Context, s scenario, taking []peer, p pace, say func(string, ...any)) (result, error) {
	out := result{scenario: s}
	if len(taking) == 0 {
		return out, nil
	}
	empty, full := &series{Peer: "abide"}, &series{Peer: besideQueue}
	out.Series = []*series{empty, full}
	if err := b.byTurns(ctx, s, empty, full, p, say); err != nil {
		text := strings.ReplaceAll(err.Error(), b.dir, "…")
		for _, one := range out.Series {
			one.Fault, one.Samples = text, nil
		}
		say("%s: %s", s.name, text)
	}
	empty.settle()
	full.settle()
	return out, ctx.Err()
}

func (b *bed) byTurns(ctx context.Context, s scenario, empty, full *series, p pace, say func(string, ...any)) error {
	waiting := min(busyQueue, p.hold)
	w, err := startAbide(ctx, b, s.intercept, fmt.Sprintf(
		"queue: {per_site: %d}\nsites:\n  - {host: %s, limits: [{concurrency: %d}]}\n", waiting, busyHost, busyFlight))
	if err != nil {
		return err
	}
	defer w.stop()
	j := s.job(w, p)
	if _, err := b.do(j.warmup(p)); err != nil {
		return err
	}
	rounds := s.rounds(p)
	order := []*series{empty, full}
	for round := range rounds {
		for _, one := range order {
			held := 0
			if one == full {
				held = waiting
			}
			got, err := b.beside(ctx, w, j, held)
			if err != nil {
				return err
			}
			one.Samples = append(one.Samples, got)
		}
		slices.Reverse(order) // so that what drifts meets both alike
		say("%s: round %d of %d", s.name, round+1, rounds)
	}
	return nil
}

// beside takes one sample while so many requests wait for the busy site.
func (b *bed) beside(ctx context.Context, w *way, j job, held int) (sample, error) {
	if held > 0 {
		crowd := route{plain, w.plain.Dial, busyHost + ":80", ""}.job()
		// The first requests to a site that nobody knows do not go together.
		crowd.Conns, crowd.Size, crowd.Count = 1, 1, 2
		if _, err := b.do(crowd); err != nil {
			return sample{}, err
		}
		crowd.Conns, crowd.Count, crowd.Hold = 32, busyFlight+held, true
		if _, err := b.do(crowd); err != nil {
			return sample{}, err
		}
		if err := b.waiting(ctx, w, held, busyFlight); err != nil {
			return sample{}, err
		}
	}
	item, err := b.underLoad(ctx, w, j)
	item.Held = int64(held)
	if err != nil || held == 0 {
		return item, err
	}
	if _, err := b.do(job{Drop: true}); err != nil {
		return sample{}, err
	}
	return item, b.waiting(ctx, w, 0, 0)
}

// waiting returns when so many requests wait in abide and so many are at the
// origin, and a moment for the processes to come to rest has passed.
func (b *bed) waiting(ctx context.Context, w *way, held, flying int) error {
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		// When some hang up, others go in their place before they do so too.
		c, err := b.counts(flying == 0)
		if err != nil {
			return err
		}
		n, err := holds(limited, w)
		if err != nil {
			return err
		}
		if n == held && c.Held == int64(flying) {
			return process.Pause(ctx, 500*time.Millisecond)
		}
		if err := process.Pause(limited, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d requests wait and %d are in flight instead of %d and %d: %w", n, c.Held, held, flying, err)
		}
	}
}

// holds is how many requests wait in abide, as its metrics say.
func holds(ctx context.Context, w *way) (int, error) {
	text, err := fetch(ctx, "http://"+w.admin+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("asking abide what waits: %w", err)
	}
	all := 0.0
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("abide_queue_holds{")) {
			continue
		}
		_, value, _ := strings.Cut(strings.TrimSpace(string(line)), "} ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("asking abide what waits: %w", err)
		}
		all += n
	}
	return int(all), nil
}

// addedByQueue is what the other site's queue adds to the p99.
func addedByQueue(r *result, _ string) float64 {
	return median(p99)(r, besideQueue) - median(p99)(r, "abide")
}

// noiseWithout is how far apart the p99s of the rounds are without a queue.
func noiseWithout(r *result, _ string) float64 {
	s := r.find("abide")
	if s == nil || len(s.Samples) == 0 {
		return math.NaN()
	}
	of := s.of(p99.of)
	return of.Max - of.Min
}
