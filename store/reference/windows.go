package reference

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// width is store.Width in microseconds.
func width(a *store.Ask) int64 { return store.Width(a).Microseconds() }

func slots(a *store.Ask) int64 { return int64(a.Slots) }

// span is the position of the present among the windows of an Ask.
type span struct {
	window int64 // the number of the present one
	next   int64 // of the next
	ends   int64 // when the present one ends, in microseconds since 1970
	first  int64 // the number of the first one that counts
	since  int64 // of the first in which wanting something still counts
}

// counts returns the time at which holdings of a window count no more, if windows have a
// length.
func (s *span) counts(a *store.Ask, window int64) int64 {
	switch a.Kind {
	case store.Fixed:
		return (window + 1) * width(a)
	case store.Rolling:
		return (window + slots(a) + 1) * width(a)
	}
	return math.MaxInt64
}

// spanOf returns the span of an Ask. It is false if the Ask does not say in which window now
// is.
func spanOf(a *store.Ask, now int64) (span, bool) {
	switch a.Kind {
	case store.Fixed:
		if width(a) > 0 {
			w := now / width(a)
			return span{window: w, next: w + 1, ends: (w + 1) * width(a), first: w, since: w - 1}, true
		}
	case store.Rolling:
		if width(a) > 0 {
			w := now / width(a)
			return span{window: w, next: w + 1, ends: (w + 1) * width(a), first: w - slots(a), since: w - slots(a)}, true
		}
	case store.Quota:
		i, found := slices.BinarySearchFunc(a.Edges, now, func(e time.Time, now int64) int {
			return cmp.Compare(e.UnixMicro(), now)
		})
		if !found {
			i-- // the last edge that is not after now
		}
		if i < 0 || i+1 >= len(a.Edges) {
			return span{}, false
		}
		w := a.Edges[i].Unix()
		return span{
			window: w, next: a.Edges[i+1].Unix(), ends: a.Edges[i+1].UnixMicro(),
			first: w, since: a.Edges[max(i-1, 0)].Unix(),
		}, true
	}
	return span{}, false
}

// since returns the holdings of windows from first on.
func since(holds []store.Holding, first int64) []store.Holding {
	i := slices.IndexFunc(holds, func(h store.Holding) bool { return h.Window >= first })
	if i < 0 {
		return nil
	}
	return holds[i:]
}

func held(holds []store.Holding, window int64) int64 {
	if i, found := find(holds, window); found {
		return holds[i].N
	}
	return 0
}

// add makes a new list: a recorded list is never changed in place.
func add(holds []store.Holding, window, n int64) []store.Holding {
	if n <= 0 {
		return holds
	}
	i, found := find(holds, window)
	holds = slices.Clone(holds)
	if found {
		holds[i].N = min(holds[i].N+n, most)
		return holds
	}
	return slices.Insert(holds, i, store.Holding{Window: window, N: n})
}

func find(holds []store.Holding, window int64) (int, bool) {
	return slices.BinarySearchFunc(holds, window, func(h store.Holding, window int64) int {
		return cmp.Compare(h.Window, window)
	})
}

// micro returns a duration in microseconds.
func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
