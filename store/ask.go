package store

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A store counts in whole microseconds, as Redis does, and in amounts up to maxAmount, so
// that sums are exact in the floating point of its scripts.
const (
	maxAmount = int64(1) << 50
	maxSum    = int64(1) << 52 // upper bound of sums
)

// clamp limits an amount to 0…maxAmount.
func clamp(n int64) int64 { return min(max(n, 0), maxAmount) }

// microseconds is a duration of n microseconds.
func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// Exact returns the Ask as stores count: amounts from 0 to 2^50, defaults filled in, Holds
// sorted and positive, Past -1 for none, and Seen after 1970.
func (a *Ask) Exact() Ask {
	x := *a
	x.Slots = max(a.Slots, 1)
	x.Holds = normalHolds(a.Holds)
	x.Past = -1
	if a.Past > 0 {
		x.Past = min(a.Past, 2*maxSum-2)
	}
	x.Seen = time.UnixMicro(0)
	if !a.Seen.IsZero() {
		x.Seen = time.UnixMicro(min(max(a.Seen.UnixMicro(), 0), maxSum))
	}
	x.Amount, x.Want, x.Waits, x.Ahead = clamp(a.Amount), clamp(a.Want), clamp(a.Waits), clamp(a.Ahead)
	x.Counted.N, x.Held = clamp(a.Counted.N), clamp(a.Held)
	x.Least = min(max(a.Least, 1), maxSum)
	x.Lasts = min(max(a.Lasts, 0), x.Slots)
	return x
}

// normalHolds returns positive holdings, sorted, each window once.
func normalHolds(holds []Holding) []Holding {
	list := slices.Clone(holds)
	slices.SortFunc(list, func(a, b Holding) int { return cmp.Compare(a.Window, b.Window) })
	n := 0
	for _, h := range list {
		switch h.N = clamp(h.N); {
		case h.N == 0:
		case n > 0 && list[n-1].Window == h.Window:
			list[n-1].N = min(list[n-1].N+h.N, maxAmount)
		default:
			list[n] = h
			n++
		}
	}
	return list[:n]
}

// Width returns the length of a numbered window or slot by the store's clock: Window, or a slot
// of it, in whole microseconds, rounded up so that Slots of them are at least a Window. It
// is 0 for kinds without a fixed length.
func Width(a *Ask) time.Duration {
	var ns, n int64
	switch a.Kind {
	case Fixed:
		ns, n = int64(a.Window), 1
	case Rolling:
		ns, n = int64(a.Window), int64(max(a.Slots, 1))
	}
	if ns <= 0 {
		return 0
	}
	each := (ns-1)/n + 1
	return microseconds((each-1)/1000 + 1)
}

// Name returns the name of a budget's record. It includes the limit's shape, because window
// numbers of one length mean nothing in another: instances may have different
// configurations for a while.
func (a *Ask) Name() string {
	switch a.Kind {
	case Fixed:
		return fmt.Sprintf("f/%d/%s", Width(a).Microseconds(), a.Key)
	case Rolling:
		return fmt.Sprintf("r/%d/%d/%s", Width(a).Microseconds(), max(a.Slots, 1), a.Key)
	case Quota:
		return "q/" + a.Key
	case Count:
		return "c/" + a.Key
	}
	return "kind" + strconv.Itoa(int(a.Kind)) + "/" + a.Key
}

// Newcomer tells whether an instance knows no Generation and holds nothing. Any generation
// of the store answers it.
//
// An instance that knows no Generation but holds units has taken these without the store,
// so others may have done so, too, or it has missed a change of the Generation. It states
// first what it holds, and gets grants when it knows the Generation.
func (b *Batch) Newcomer() bool {
	return b.Generation == "" && !slices.ContainsFunc(b.Asks, func(a Ask) bool {
		return slices.ContainsFunc(a.Holds, func(h Holding) bool { return h.N > 0 })
	})
}

// untilTolerance is the largest difference of the Until of two notes with the same content.
const untilTolerance = time.Second

// maxUntil is the latest Until of a Note: later times would not be exact in the floating
// point of a script.
var maxUntil = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// normalized returns the Note as it is saved.
func (n Note) normalized() Note {
	if n.Until.After(maxUntil) {
		n.Until = maxUntil
	}
	n.Until = time.UnixMicro(n.Until.UnixMicro())
	n.N = min(max(n.N, -maxSum), maxSum)
	return n
}

// Replaces tells whether a Note replaces a known one: a later Until does, or if both are
// nearly equal, a larger N. The same rule is in redis.lua.
func (n Note) Replaces(known Note) bool {
	if d := n.Until.Sub(known.Until); d > untilTolerance || d < -untilTolerance {
		return d > 0
	}
	return n.N > known.N
}

// MergeNotes adds received notes to the known ones, and drops expired ones. It returns the
// notes that were new.
func MergeNotes(known map[string]Note, said []Note, now time.Time) (news []Note) {
	for key, n := range known {
		if !n.Until.After(now) {
			delete(known, key)
		}
	}
	for _, n := range said {
		n = n.normalized()
		if old, there := known[n.Key]; n.Until.After(now) && (!there || n.Replaces(old)) {
			known[n.Key] = n
			news = append(news, n)
		}
	}
	return news
}

// SortNotes sorts notes by key.
func SortNotes(notes []Note) []Note {
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.Key, b.Key) })
	return notes
}
