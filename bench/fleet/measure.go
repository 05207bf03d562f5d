//go:build linux

package main

import (
	"maps"
	"slices"
	"time"
)

// budget is a limit as it is measured.
type budget struct {
	name    string
	yaml    string // in the configuration
	amount  int64
	window  time.Duration
	rolling bool
	bytes   bool
	size    int // of an answer
}

// most is the most in any window: of the clock, or in any interval of that length.
func (b budget) most(events []event) int64 {
	if !b.rolling {
		sums, top := map[int64]int64{}, int64(0)
		for _, e := range events {
			w := e.at.UnixNano() / int64(b.window)
			sums[w] += e.n
			top = max(top, sums[w])
		}
		return top
	}
	list := slices.Clone(events)
	slices.SortFunc(list, func(a, b event) int { return a.at.Compare(b.at) })
	sum, top, first := int64(0), int64(0), 0
	for _, e := range list {
		for ; e.at.Sub(list[first].at) >= b.window; first++ {
			sum -= list[first].n
		}
		sum += e.n
		top = max(top, sum)
	}
	return top
}

// over is how much the worst window is above the limit.
func (b budget) over(events []event) int64 { return max(b.most(events)-b.amount, 0) }

// lateness is by how much a request may arrive after it was let go, on a machine that does
// much else.
const lateness = 250 * time.Millisecond

// beyond is over for windows of the clock, where requests that came within some time
// after a window began may belong to the one before, if that has room for them.
func (b budget) beyond(events []event, lateness time.Duration) int64 {
	sums, early := map[int64]int64{}, map[int64]int64{}
	for _, e := range events {
		w := e.at.UnixNano() / int64(b.window)
		sums[w] += e.n
		if e.at.UnixNano()%int64(b.window) < int64(lateness) {
			early[w] += e.n
		}
	}
	top, windows := int64(0), slices.Sorted(maps.Keys(sums))
	for i := len(windows) - 1; i >= 0; i-- {
		w := windows[i]
		if moves := min(sums[w]-b.amount, early[w]); moves > 0 && i > 0 && windows[i-1] == w-1 {
			sums[w] -= moves
			sums[w-1] += moves
		}
		top = max(top, sums[w]-b.amount)
	}
	return top
}

// used is which part of the budget was used in an interval.
func (b budget) used(events []event, from, to time.Time) float64 {
	sum := int64(0)
	for _, e := range events {
		if !e.at.Before(from) && e.at.Before(to) {
			sum += e.n
		}
	}
	return float64(sum) / float64(b.amount) * float64(b.window) / float64(to.Sub(from))
}

// edge is the first beginning of a window that is not before t.
func (b budget) edge(t time.Time) time.Time {
	at := t.Truncate(b.window)
	if at.Before(t) {
		at = at.Add(b.window)
	}
	return at
}

// sum is how many there are.
func sum(events []event, from, to time.Time) (n int64) {
	for _, e := range events {
		if !e.at.Before(from) && e.at.Before(to) {
			n += e.n
		}
	}
	return n
}

// first is how long after a moment the first event came; negative: none did.
func first(events []event, after time.Time) time.Duration {
	least := time.Duration(-1)
	for _, e := range events {
		if d := e.at.Sub(after); d >= 0 && (least < 0 || d < least) {
			least = d
		}
	}
	return least
}

// part is the value below which that part of a list is.
func part(list []time.Duration, p float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return list[min(int(p*float64(len(list))), len(list)-1)]
}
