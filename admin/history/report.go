package history

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// Recent returns the counts of a time, of at most the last hour, or since BeginAnew, added up, when they begin, and the
// total length of the minutes that have any.
func (r *Recorder) Recent(now time.Time, over time.Duration) (h store.History, since time.Time, active time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	present, minutes := now.Truncate(time.Minute), r.recent.current()
	for len(minutes) > 0 && now.Sub(minutes[0].start) > over {
		minutes = minutes[1:]
	}
	since = present
	if len(minutes) > 0 {
		since = minutes[0].start
	}
	if fresh := r.fresh(now, present, false); !fresh.Empty() {
		minutes = append(slices.Clone(minutes), minute{start: present, from: status.Later(present, r.began), History: fresh})
	}
	all, counted := sums{}, time.Time{}
	for _, m := range minutes {
		all.add(m.History)
		end := slices.MinFunc([]time.Time{m.start.Add(time.Minute), now}, time.Time.Compare)
		active += max(end.Sub(status.Later(m.from, counted)), 0) // a minute may be there twice: of the file, and of this process
		counted = end
	}
	if changed := r.recent.changed; changed.After(since) {
		since, active = changed, min(active, now.Sub(changed))
	}
	return all.at(since), since, active
}

// inMemory returns the counts that no file has: all that is not written, and without a file the last hour.
func (r *Recorder) inMemory(now time.Time) store.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	minute := now.Truncate(time.Minute)
	h := r.fresh(now, minute, false)
	h.Add(r.unwritten.at(minute))
	if r.options.File == nil {
		for _, m := range r.recent.minutes {
			h.Add(m.History)
		}
	}
	return h
}

// Rows returns the rows of a kind of a site, or of each site if site is "", that began in
// [since, until), in steps aligned to 1970; a step of 0 is one step of all. They are from the file and from memory.
func (r *Recorder) Rows(ctx context.Context, k store.RowKind, site string, since, until time.Time, step time.Duration) (list []store.Row, err error) {
	if f := r.options.File; f != nil {
		if list, err = f.Rows(ctx, k, site, since, until, step); err != nil {
			return nil, err
		}
	}
	h := r.inMemory(time.Now())
	inMemory := slices.DeleteFunc(h[k], func(row store.Row) bool { return site != "" && row.Site != site })
	return period{since, until, step}.inSteps(list, inMemory), nil
}

// UsageBy returns Usage by one part of its key, which is in Site: "site", "client", "token" or "priority". By "token",
// the label is in Token, and Site is the pool of its site.
func (r *Recorder) UsageBy(ctx context.Context, by string, poolOf func(site string) string, site string, since, until time.Time, step time.Duration) ([]store.Row, error) {
	list, err := r.Rows(ctx, store.UsageRows, site, since, until, step)
	if err != nil {
		return nil, err
	}
	for i := range list {
		u := &list[i]
		parts := [...]string{u.Site, u.Client, u.Token, strconv.Itoa(u.Priority)} // as status.ReportKeys
		name, token := parts[slices.Index(status.ReportKeys, by)], ""
		if by == "token" && name != "" {
			name, token = poolOf(u.Site), name
		}
		u.Site, u.Client, u.Token, u.Priority = name, "", token, 0
	}
	return period{since.Truncate(max(step, time.Second)), until, step}.inSteps(nil, list), nil
}
