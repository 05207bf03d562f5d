package history

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// rows says how rows of one kind, R, are added up by their key, K.
type rows[K comparable, R any] struct {
	key   func(*R) K
	site  func(*R) string
	start func(*R) *time.Time
	add   func(to *R, more *R)
	// fold makes a row one of those that are not kept apart: of its site, or of all sites.
	fold func(r *R, all bool)
}

// blockedKey names the limit of a site whose blocked times are added up.
type (
	blockedKey struct{ site, limit string }
	failedKey  struct{ site, what string }
)

var (
	trafficRows = rows[string, store.Traffic]{
		key:   func(r *store.Traffic) string { return r.Site },
		site:  func(r *store.Traffic) string { return r.Site },
		start: func(r *store.Traffic) *time.Time { return &r.Minute },
		add: func(to, more *store.Traffic) {
			to.In, to.Out, to.Requests = to.In+more.In, to.Out+more.Out, to.Requests+more.Requests
		},
		fold: func(r *store.Traffic, _ bool) { r.Site = store.Others },
	}
	usageRows = rows[store.UsageKey, store.Usage]{
		key:   func(r *store.Usage) store.UsageKey { return r.UsageKey },
		site:  func(r *store.Usage) string { return r.Site },
		start: func(r *store.Usage) *time.Time { return &r.Minute },
		add: func(to, more *store.Usage) {
			to.In, to.Out, to.Requests = to.In+more.In, to.Out+more.Out, to.Requests+more.Requests
			to.Refusals, to.Waited = to.Refusals+more.Refusals, to.Waited+more.Waited
		},
		fold: func(r *store.Usage, all bool) {
			r.Client, r.Token = store.Others, store.Others
			if all {
				r.Site = store.Others
			}
		},
	}
	blockedRows = rows[blockedKey, store.Blocked]{
		key:   func(r *store.Blocked) blockedKey { return blockedKey{r.Site, r.Limit} },
		site:  func(r *store.Blocked) string { return r.Site },
		start: func(r *store.Blocked) *time.Time { return &r.Minute },
		add: func(to, more *store.Blocked) {
			to.Held, to.Busy = to.Held+more.Held, to.Busy+more.Busy
		},
		fold: func(r *store.Blocked, all bool) {
			r.Limit = store.Others
			if all {
				r.Site = store.Others
			}
		},
	}
	failedRows = rows[failedKey, store.Failure]{
		key:   func(r *store.Failure) failedKey { return failedKey{r.Site, r.What} },
		site:  func(r *store.Failure) string { return r.Site },
		start: func(r *store.Failure) *time.Time { return &r.Minute },
		add:   func(to, more *store.Failure) { to.Requests += more.Requests },
		fold:  func(r *store.Failure, _ bool) { r.Site = store.Others },
	}
)

// addTo adds a row to a map of at most about twice as many rows as most: what would make it
// larger is added up.
func (t rows[K, R]) addTo(sums map[K]*R, r R, most int) {
	key := t.key(&r)
	if sums[key] == nil && len(sums) >= most {
		t.fold(&r, len(sums) >= 2*most)
		key = t.key(&r)
	}
	if sum := sums[key]; sum != nil {
		t.add(sum, &r)
		return
	}
	sums[key] = &r
}

// list is the rows of a map, each of a minute.
func (t rows[K, R]) list(sums map[K]*R, minute time.Time) []R {
	list := make([]R, 0, len(sums))
	for _, one := range sums {
		row := *one
		*t.start(&row) = minute
		list = append(list, row)
	}
	return list
}

// period is a time in steps aligned to 1970. A step of 0 is the whole time.
type period struct {
	since, until time.Time
	step         time.Duration
}

// bucket is the start of the step that a time is in.
func (p period) bucket(at time.Time) time.Time {
	if p.step <= 0 {
		return time.Unix(p.since.Unix(), 0).UTC()
	}
	return at.Truncate(max(p.step, time.Minute)).UTC()
}

// inSteps adds rows that began in a period to a list that is in its steps.
func (t rows[K, R]) inSteps(list, more []R, p period) []R {
	type place struct {
		at  int64
		key K
	}
	index := make(map[place]int, len(list))
	for i := range list {
		index[place{t.start(&list[i]).Unix(), t.key(&list[i])}] = i
	}
	for _, r := range more {
		start := t.start(&r)
		if start.Before(p.since) || !start.Before(p.until) {
			continue
		}
		*start = p.bucket(*start)
		at := place{start.Unix(), t.key(&r)}
		if i, known := index[at]; known {
			t.add(&list[i], &r)
			continue
		}
		index[at] = len(list)
		list = append(list, r)
	}
	return list
}

// Bounds of what is counted apart at one time. Above them rows are counted together, as those
// of store.Others.
const (
	mostSites   = 10_000
	mostUsage   = 5_000
	mostBlocked = 5_000
	mostFailed  = 5_000
)

// sums are counts of one time. The zero value is empty.
type sums struct {
	traffic map[string]*store.Traffic
	usage   map[store.UsageKey]*store.Usage
	blocked map[blockedKey]*store.Blocked
	failed  map[failedKey]*store.Failure
}

func (s *sums) add(h store.History) {
	if s.traffic == nil {
		*s = sums{map[string]*store.Traffic{}, map[store.UsageKey]*store.Usage{}, map[blockedKey]*store.Blocked{}, map[failedKey]*store.Failure{}}
	}
	for _, one := range h.Traffic {
		trafficRows.addTo(s.traffic, one, mostSites)
	}
	for _, one := range h.Usage {
		usageRows.addTo(s.usage, one, mostUsage)
	}
	for _, one := range h.Blocked {
		blockedRows.addTo(s.blocked, one, mostBlocked)
	}
	for _, one := range h.Failed {
		failedRows.addTo(s.failed, one, mostFailed)
	}
}

// at is the counts as those of a minute.
func (s *sums) at(minute time.Time) store.History {
	return store.History{
		Traffic: trafficRows.list(s.traffic, minute), Usage: usageRows.list(s.usage, minute), Blocked: blockedRows.list(s.blocked, minute), Failed: failedRows.list(s.failed, minute),
	}
}
