package store

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// budget is the name under which a budget is written down. The shape belongs to it:
// numbers of windows of one length mean nothing among those of another, as when the
// configuration has changed and not everybody has it yet.
func budget(a *Ask) string {
	switch a.Kind {
	case Fixed:
		return fmt.Sprintf("f/%d/%s", width(a), a.Key)
	case Rolling:
		return fmt.Sprintf("r/%d/%d/%s", width(a), slots(a), a.Key)
	case Quota:
		return "q/" + a.Key
	case Count:
		return "c/" + a.Key
	}
	return "kind" + strconv.Itoa(int(a.Kind)) + "/" + a.Key
}

// Width is how long a window (or slot) with a number is by a store's clock: Window,
// or a slot of it, in whole microseconds, rounded up so that Slots of them are never
// less than a Window. It is 0 for kinds whose windows have no fixed length.
func Width(a *Ask) time.Duration { return time.Duration(width(a)) * time.Microsecond }

func width(a *Ask) int64 {
	var ns, n int64
	switch a.Kind {
	case Fixed:
		ns, n = int64(a.Window), 1
	case Rolling:
		ns, n = int64(a.Window), slots(a)
	}
	if ns <= 0 {
		return 0
	}
	each := (ns-1)/n + 1
	return (each-1)/1000 + 1
}

func slots(a *Ask) int64 { return int64(max(a.Slots, 1)) }

// lasts is Lasts, of which no more is of use than there are slots.
func lasts(a *Ask) int64 { return min(int64(max(a.Lasts, 0)), slots(a)) }

// span is where the present is among the windows of an Ask.
type span struct {
	window int64 // the number of the present one
	next   int64 // of the next
	ends   int64 // when the present one ends, in microseconds since 1970
	first  int64 // the number of the first one that counts
	since  int64 // of the first in which wanting something still counts
}

// counts is when what is held in a window counts no more, if windows have a length.
func (s *span) counts(a *Ask, window int64) int64 {
	switch a.Kind {
	case Fixed:
		return (window + 1) * width(a)
	case Rolling:
		return (window + slots(a) + 1) * width(a)
	}
	return math.MaxInt64
}

// spanOf is false when the Ask does not say in which window now is.
func spanOf(a *Ask, now int64) (span, bool) {
	switch a.Kind {
	case Fixed:
		if width(a) > 0 {
			w := now / width(a)
			return span{window: w, next: w + 1, ends: (w + 1) * width(a), first: w, since: w - 1}, true
		}
	case Rolling:
		if width(a) > 0 {
			w := now / width(a)
			return span{window: w, next: w + 1, ends: (w + 1) * width(a), first: w - slots(a), since: w - slots(a)}, true
		}
	case Quota:
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
