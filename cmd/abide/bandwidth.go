package main

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// otherSites is the site under which metrics count all sites beyond their bound.
	otherSites = "other"
	// maxUnwritten is how many sites wait to be written; more are counted as other.
	maxUnwritten = 10_000
	// writingPatience is how long writing one minute may take, and lastPatience the last
	// write before the process ends.
	writingPatience = 30 * time.Second
	lastPatience    = 2 * time.Second
)

// tally finds how much the counts of sites have grown since the last call. The zero value
// has seen no counts.
type tally struct {
	seen map[string]metrics.SiteCount
	// owed are counts of removed sites that the site other does not have yet.
	owed metrics.SiteCount
}

// since is the growth since the last call. A site that was removed to make room has added
// its counts to the site other; a site that has come back since counts from 0.
func (t *tally) since(now []metrics.SiteCount) []store.Traffic {
	seen := make(map[string]metrics.SiteCount, len(now))
	for _, one := range now {
		seen[one.Name] = one
	}
	var list []store.Traffic
	moved := t.owed
	for name, before := range t.seen {
		if one, there := seen[name]; name != otherSites && (!there || hasDecreased(before, one)) {
			moved.Requests += before.Requests
			moved.In += before.In
			moved.Out += before.Out
		}
	}
	t.owed = metrics.SiteCount{}
	for _, one := range now {
		before := t.seen[one.Name]
		switch {
		case one.Name == otherSites:
			before.Requests += moved.Requests
			before.In += moved.In
			before.Out += moved.Out
			moved = metrics.SiteCount{}
			t.owed = metrics.SiteCount{Requests: subtract(before.Requests, one.Requests), In: subtract(before.In, one.In), Out: subtract(before.Out, one.Out)}
		case hasDecreased(before, one):
			before = metrics.SiteCount{}
		}
		fresh := store.Traffic{
			Site: one.Name, In: int64(subtract(one.In, before.In)), Out: int64(subtract(one.Out, before.Out)),
			Requests: int64(subtract(one.Requests, before.Requests)),
		}
		if fresh.In+fresh.Out+fresh.Requests > 0 {
			list = append(list, fresh)
		}
	}
	if moved != (metrics.SiteCount{}) { // the site other does not exist yet
		t.owed = moved
	}
	t.seen = seen
	return list
}

// hasDecreased tells whether a site counts less than before: it was removed and has come
// back.
func hasDecreased(before, now metrics.SiteCount) bool {
	return now.Requests < before.Requests || now.In < before.In || now.Out < before.Out
}

// subtract is a − b, but at least 0.
func subtract(a, b uint64) uint64 { return a - min(a, b) }

// recorder writes the bytes and requests of each site to the state file every minute.
type recorder struct {
	sites func() []metrics.SiteCount
	write func(context.Context, []store.Traffic) error
	log   *logrus.Logger

	tally     tally
	unwritten map[string]store.Traffic // :: site → what is to be written
	failing   bool
}

// run records at each full minute until ctx is done, and the rest at the end.
func (r *recorder) run(ctx context.Context) {
	for {
		now := time.Now()
		minute := now.Truncate(time.Minute)
		timer := time.NewTimer(minute.Add(time.Minute).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			r.record(context.WithoutCancel(ctx), minute, lastPatience)
			return
		case <-timer.C:
		}
		r.record(context.WithoutCancel(ctx), minute, writingPatience)
	}
}

// record writes what was counted since the last call, and what could not be written before.
func (r *recorder) record(ctx context.Context, minute time.Time, within time.Duration) {
	for _, one := range r.tally.since(r.sites()) {
		r.add(one)
	}
	if len(r.unwritten) == 0 {
		return
	}
	list := make([]store.Traffic, 0, len(r.unwritten))
	for _, one := range r.unwritten {
		one.Minute = minute
		list = append(list, one)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := r.write(ctx, list)
	if err != nil && !r.failing {
		r.log.Warnf("what went from and to sites cannot be recorded: %v", err)
	}
	r.failing = err != nil
	if err == nil || errors.Is(err, context.DeadlineExceeded) { // after a timeout the rows may have been written, and must not be written twice
		r.unwritten = nil
	}
}

func (r *recorder) add(one store.Traffic) {
	if r.unwritten == nil {
		r.unwritten = map[string]store.Traffic{}
	}
	sum, known := r.unwritten[one.Site]
	if !known && len(r.unwritten) >= maxUnwritten {
		one.Site = otherSites
		sum = r.unwritten[otherSites]
	}
	one.In, one.Out, one.Requests = one.In+sum.In, one.Out+sum.Out, one.Requests+sum.Requests
	r.unwritten[one.Site] = one
}

// record runs a recorder until ctx is done, if there is a state file.
func (a *program) record(ctx context.Context) {
	if a.kept == nil || a.kept.file == nil {
		return
	}
	(&recorder{sites: a.metrics.Sites, write: a.kept.file.Record, log: a.log}).run(ctx)
}

// bandwidth is the recorded traffic of a site, or of all sites, in steps.
func (k *storage) bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error) {
	if k == nil || k.file == nil {
		return nil, errors.ErrUnsupported
	}
	kept, err := k.file.Bandwidth(ctx, site, since, until, step)
	list := make([]status.Traffic, len(kept))
	for i, one := range kept {
		list[i] = status.Traffic{Site: one.Site, Start: one.Minute, In: one.In, Out: one.Out, Requests: one.Requests}
	}
	return list, err
}
