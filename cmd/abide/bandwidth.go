package main

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/store"
)

const (
	// otherSites is where metrics count what is not told apart.
	otherSites = "other"
	// mostUnwritten is how many sites wait to be written; what comes after is counted
	// as other.
	mostUnwritten = 10_000
	// writingPatience is how long a minute may take to be written, lastPatience the last
	// one of all.
	writingPatience = 30 * time.Second
	lastPatience    = 2 * time.Second
)

// tally is what was counted since it was asked last. The zero value has seen nothing.
type tally struct {
	seen map[string]metrics.SiteCount
	// owed is what a site that was making room had not yet handed over, so that other
	// seemed to have less than before.
	owed metrics.SiteCount
}

// since is what was counted after the last time. A site that has made room for another
// has left to other what it had; one that has come back since begins again.
func (t *tally) since(now []metrics.SiteCount) []store.Traffic {
	seen := make(map[string]metrics.SiteCount, len(now))
	for _, one := range now {
		seen[one.Name] = one
	}
	var list []store.Traffic
	moved := t.owed
	for name, before := range t.seen {
		if one, there := seen[name]; name != otherSites && (!there || fell(before, one)) {
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
			t.owed = metrics.SiteCount{Requests: less(before.Requests, one.Requests), In: less(before.In, one.In), Out: less(before.Out, one.Out)}
		case fell(before, one):
			before = metrics.SiteCount{}
		}
		fresh := store.Traffic{
			Site: one.Name, In: int64(less(one.In, before.In)), Out: int64(less(one.Out, before.Out)),
			Requests: int64(less(one.Requests, before.Requests)),
		}
		if fresh.In+fresh.Out+fresh.Requests > 0 {
			list = append(list, fresh)
		}
	}
	if moved != (metrics.SiteCount{}) { // other has not even begun
		t.owed = moved
	}
	t.seen = seen
	return list
}

// fell tells whether a site has less than before, so that it is another life of it.
func fell(before, now metrics.SiteCount) bool {
	return now.Requests < before.Requests || now.In < before.In || now.Out < before.Out
}

// less is a − b, but never below nothing.
func less(a, b uint64) uint64 { return a - min(a, b) }

// recorder writes down each minute what went from and to each site.
type recorder struct {
	sites func() []metrics.SiteCount
	write func(context.Context, []store.Traffic) error
	log   *logrus.Logger

	tally     tally
	unwritten map[string]store.Traffic // :: site → what is to be written
	failing   bool
}

// run records at each full minute until ctx is done, and then what is left.
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

// record writes what was counted under a minute, and with it what could not be written
// before.
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
	if err == nil || errors.Is(err, context.DeadlineExceeded) { // that may be written yet, and must not be twice
		r.unwritten = nil
	}
}

func (r *recorder) add(one store.Traffic) {
	if r.unwritten == nil {
		r.unwritten = map[string]store.Traffic{}
	}
	sum, known := r.unwritten[one.Site]
	if !known && len(r.unwritten) >= mostUnwritten {
		one.Site = otherSites
		sum = r.unwritten[otherSites]
	}
	one.In, one.Out, one.Requests = one.In+sum.In, one.Out+sum.Out, one.Requests+sum.Requests
	r.unwritten[one.Site] = one
}

// record keeps what goes from and to sites until ctx is done, if there is where.
func (a *program) record(ctx context.Context) {
	if a.kept == nil || a.kept.file == nil {
		return
	}
	(&recorder{sites: a.metrics.Sites, write: a.kept.file.Record, log: a.log}).run(ctx)
}

// bandwidth is what was recorded, for the operator's listener; nil where nothing is.
func (k *keeping) bandwidth() func(context.Context, string, time.Time, time.Time, time.Duration) ([]admin.Traffic, error) {
	if k == nil || k.file == nil {
		return nil
	}
	return func(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]admin.Traffic, error) {
		kept, err := k.file.Bandwidth(ctx, site, since, until, step)
		list := make([]admin.Traffic, len(kept))
		for i, one := range kept {
			list[i] = admin.Traffic{Site: one.Site, Start: one.Minute, In: one.In, Out: one.Out, Requests: one.Requests}
		}
		return list, err
	}
}
