package history

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Recent returns the counts of the last hour, or since BeginAnew, added up, when they begin, and the total
// length of the minutes that have any.
func (r *Recorder) Recent(now time.Time) (h store.History, since time.Time, active time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	present, minutes := now.Truncate(time.Minute), r.recent.current()
	since = present
	if len(minutes) > 0 {
		since = minutes[0].start
	}
	fresh := r.unrecorded(now)
	active = time.Duration(len(minutes)) * time.Minute
	if !fresh.Empty() {
		active += min(now.Sub(present), now.Sub(r.began))
	}
	if changed := r.recent.changed; changed.After(since) {
		since, active = changed, min(active, now.Sub(changed))
	}
	all := sums{}
	all.add(r.recent.sum.at(since))
	all.add(fresh)
	return all.at(since), since, active
}

// inMemory returns the counts that no file has: all that is not written, and without a file the last hour.
func (r *Recorder) inMemory(now time.Time) store.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.unrecorded(now)
	more := r.unwritten.at(now.Truncate(time.Minute))
	add := func(m store.History) {
		h.Traffic, h.Usage, h.Blocked = append(h.Traffic, m.Traffic...), append(h.Usage, m.Usage...), append(h.Blocked, m.Blocked...)
		h.Failed = append(h.Failed, m.Failed...)
	}
	add(more)
	if r.options.File == nil {
		for _, m := range r.recent.minutes {
			stamped := sums{}
			stamped.add(m.History)
			add(stamped.at(m.start))
		}
	}
	return h
}

// Bandwidth is the traffic of a site, or of each site if site is "", that began in
// [since, until), in steps aligned to 1970; a step of 0 is one step of all.
func (r *Recorder) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]store.Traffic, error) {
	return read(ctx, r, trafficRows, File.Bandwidth, func(h store.History) []store.Traffic { return h.Traffic }, site, period{since, until, step})
}

// Usage returns the outcomes of requests, as Bandwidth returns traffic.
func (r *Recorder) Usage(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]store.Usage, error) {
	return read(ctx, r, usageRows, File.Usage, func(h store.History) []store.Usage { return h.Usage }, site, period{since, until, step})
}

// Blocked returns the times for which limits held requests, as Bandwidth returns traffic.
func (r *Recorder) Blocked(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]store.Blocked, error) {
	return read(ctx, r, blockedRows, File.Blocked, func(h store.History) []store.Blocked { return h.Blocked }, site, period{since, until, step})
}

// Failed returns the requests that failed, as Bandwidth returns traffic.
func (r *Recorder) Failed(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]store.Failure, error) {
	return read(ctx, r, failedRows, File.Failed, func(h store.History) []store.Failure { return h.Failed }, site, period{since, until, step})
}

// read returns the rows of a site, or of all sites if site is "", from the file and from memory.
func read[K comparable, R any](ctx context.Context, r *Recorder, t rows[K, R], from func(File, context.Context, string, time.Time, time.Time, time.Duration) ([]R, error),
	of func(store.History) []R, site string, p period,
) (list []R, err error) {
	if f := r.options.File; f != nil {
		if list, err = from(f, ctx, site, p.since, p.until, p.step); err != nil {
			return nil, err
		}
	}
	inMemory := slices.DeleteFunc(of(r.inMemory(time.Now())), func(row R) bool { return site != "" && t.site(&row) != site })
	return t.inSteps(list, inMemory, p), nil
}

// UsageBy returns Usage by one part of its key, which is in Site: "site", "client", "token" or "priority".
func (r *Recorder) UsageBy(ctx context.Context, by, site string, since, until time.Time, step time.Duration) ([]store.Usage, error) {
	list, err := r.Usage(ctx, site, since, until, step)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].UsageKey = store.UsageKey{Site: part(list[i].UsageKey, by)}
	}
	return usageRows.inSteps(nil, list, period{since.Truncate(max(step, time.Second)), until, step}), nil
}

// part returns one part of a key.
func part(k store.UsageKey, by string) string {
	switch by {
	case "client":
		return k.Client
	case "token":
		return k.Token
	case "priority":
		return strconv.Itoa(k.Priority)
	}
	return k.Site
}
