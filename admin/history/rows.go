package history

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// kinds say, for each kind of rows, how many are counted apart at one time. A further row is counted as one of store.Others: of
// its site by fold, and if there are twice as many, or without fold, of all sites.
var kinds = [store.Kinds]struct {
	most int
	fold func(r *store.Row)
}{
	store.TrafficRows: {most: 10_000},
	store.UsageRows:   {mostUsage, func(r *store.Row) { r.Client, r.Token = store.Others, store.Others }},
	store.BlockedRows: {5_000, func(r *store.Row) { r.Limit = store.Others }},
	store.FailedRows:  {most: 5_000},
}

const mostUsage = 5_000

// sums are counts of one time. The zero value is empty.
type sums [store.Kinds]map[store.Key]*store.Row

// count adds a row to those of its kind, of which there are at most about twice as many as most.
func (s *sums) count(k store.RowKind, r store.Row) {
	key, of := r.Key(), &kinds[k]
	if s[k] == nil {
		s[k] = map[store.Key]*store.Row{}
	}
	if n := len(s[k]); s[k][key] == nil && n >= of.most {
		if of.fold != nil {
			of.fold(&r)
		}
		if of.fold == nil || n >= 2*of.most {
			r.Site = store.Others
		}
		key = r.Key()
	}
	if sum := s[k][key]; sum != nil {
		sum.Add(&r)
		return
	}
	s[k][key] = &r
}

func (s *sums) add(h store.History) {
	for k := range store.Kinds {
		for _, one := range h[k] {
			s.count(k, one)
		}
	}
}

// at is the counts as those of a minute.
func (s *sums) at(minute time.Time) (h store.History) {
	for k := range store.Kinds {
		for _, one := range s[k] {
			row := *one
			row.Minute = minute
			h[k] = append(h[k], row)
		}
	}
	return h
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

// inSteps adds rows that began in the period to a list that is in its steps.
func (p period) inSteps(list, more []store.Row) []store.Row {
	type place struct {
		at  int64
		key store.Key
	}
	index := make(map[place]int, len(list))
	for i := range list {
		index[place{list[i].Minute.Unix(), list[i].Key()}] = i
	}
	for _, r := range more {
		if r.Minute.Before(p.since) || !r.Minute.Before(p.until) {
			continue
		}
		r.Minute = p.bucket(r.Minute)
		at := place{r.Minute.Unix(), r.Key()}
		if i, known := index[at]; known {
			list[i].Add(&r)
			continue
		}
		index[at] = len(list)
		list = append(list, r)
	}
	return list
}
