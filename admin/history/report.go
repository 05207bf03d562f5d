package history

import (
	"context"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Recent returns the counts of the last hour, added up, when they begin, and the total length of
// the minutes that have any.
func (r *Recorder) Recent(now time.Time) (h store.History, since time.Time, active time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	present := now.Truncate(time.Minute)
	if since = r.recent.since(); since.IsZero() {
		since = present
	}
	fresh := r.unrecorded(now)
	active = time.Duration(len(r.recent.minutes)) * time.Minute
	if !fresh.Empty() {
		active += min(now.Sub(present), now.Sub(r.began))
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
func (r *Recorder) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) (list []store.Traffic, err error) {
	if f := r.options.File; f != nil {
		if list, err = f.Bandwidth(ctx, site, since, until, step); err != nil {
			return nil, err
		}
	}
	h := r.inMemory(time.Now())
	return trafficRows.inSteps(list, ofSite(h.Traffic, site, func(t store.Traffic) string { return t.Site }), period{since, until, step}), nil
}

// Usage returns the outcomes of requests, as Bandwidth returns traffic.
func (r *Recorder) Usage(ctx context.Context, site string, since, until time.Time, step time.Duration) (list []store.Usage, err error) {
	if f := r.options.File; f != nil {
		if list, err = f.Usage(ctx, site, since, until, step); err != nil {
			return nil, err
		}
	}
	h := r.inMemory(time.Now())
	return usageRows.inSteps(list, ofSite(h.Usage, site, func(u store.Usage) string { return u.Site }), period{since, until, step}), nil
}

// Blocked returns the times for which limits held requests, as Bandwidth returns traffic.
func (r *Recorder) Blocked(ctx context.Context, site string, since, until time.Time, step time.Duration) (list []store.Blocked, err error) {
	if f := r.options.File; f != nil {
		if list, err = f.Blocked(ctx, site, since, until, step); err != nil {
			return nil, err
		}
	}
	h := r.inMemory(time.Now())
	return blockedRows.inSteps(list, ofSite(h.Blocked, site, func(b store.Blocked) string { return b.Site }), period{since, until, step}), nil
}

// ofSite is the rows of a site, or all of them if site is "".
func ofSite[R any](list []R, site string, of func(R) string) []R {
	if site == "" {
		return list
	}
	var some []R
	for _, one := range list {
		if of(one) == site {
			some = append(some, one)
		}
	}
	return some
}

// UsageBy is Usage by one part of its key: "site", "client", "token" or "priority".
func (r *Recorder) UsageBy(ctx context.Context, by, site string, since, until time.Time, step time.Duration) ([]store.Usage, error) {
	list, err := r.Usage(ctx, site, since, until, step)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].UsageKey = part(list[i].UsageKey, by)
	}
	return usageRows.inSteps(nil, list, period{since.Truncate(max(step, time.Second)), until, step}), nil
}

// part is a key with one of its parts alone.
func part(k store.UsageKey, by string) store.UsageKey {
	switch by {
	case "client":
		return store.UsageKey{Client: k.Client}
	case "token":
		return store.UsageKey{Token: k.Token}
	case "priority":
		return store.UsageKey{Priority: k.Priority}
	}
	return store.UsageKey{Site: k.Site}
}
