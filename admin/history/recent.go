package history

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// kept is the time for which history is in memory.
	kept = time.Hour
	// mostRecent bounds the rows in memory; the oldest minutes go first.
	mostRecent = 100_000
)

// recent has the minutes of the last hour. The zero value is empty.
type recent struct {
	minutes []minute  // oldest first
	changed time.Time // when beginAnew was called last
}

type minute struct {
	start, from time.Time // of the minute, and of what is counted in it
	store.History
	outdated bool // it was counted before the last change
}

// add has what was counted in a minute, by a process that began then or before it, and forgets what is too old.
func (r *recent) add(start, began time.Time, h store.History) {
	if !h.Empty() {
		r.minutes = append(r.minutes, minute{start: start, from: status.Later(start, began), History: h})
	}
	r.forget(start)
}

// load has what a file has of minutes before the first.
func (r *recent) load(h store.History) {
	by := map[int64]*minute{}
	for k, rows := range h {
		for _, row := range rows {
			m := by[row.Minute.Unix()]
			if m == nil {
				m = &minute{start: row.Minute, from: row.Minute, outdated: row.Minute.Before(r.changed)}
				by[row.Minute.Unix()] = m
			}
			m.History[k] = append(m.History[k], row)
		}
	}
	for _, m := range by {
		r.minutes = append(r.minutes, *m)
	}
	slices.SortStableFunc(r.minutes, func(a, b minute) int { return a.from.Compare(b.from) })
	if n := len(r.minutes); n > 0 {
		r.forget(r.minutes[n-1].start)
	}
}

// forget drops what is too old, and what is too much.
func (r *recent) forget(now time.Time) {
	room := mostRecent
	first := len(r.minutes)
	for first > 0 {
		minute := r.minutes[first-1]
		if room -= minute.Len(); room < 0 || now.Sub(minute.start) >= kept {
			break
		}
		first--
	}
	r.minutes = slices.Clone(r.minutes[first:])
}

// beginAnew leaves out of current all that is counted before now.
func (r *recent) beginAnew(now time.Time) {
	for i := range r.minutes {
		r.minutes[i].outdated = true
	}
	r.changed = now
}

// current returns the minutes that are not outdated, which are the last ones.
func (r *recent) current() []minute {
	first := len(r.minutes)
	for first > 0 && !r.minutes[first-1].outdated {
		first--
	}
	return r.minutes[first:]
}
