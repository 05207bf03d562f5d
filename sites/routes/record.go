package routes

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// record is the last announcement of a group for a budget.
type record struct {
	budget      string
	route       uint64 // number of the route that showed it
	sent, heard time.Time
	before      time.Time // when the response before was heard
	reset       time.Time
	resolution  time.Duration
	left        learn.Amount

	recent [24]float64 // announced remaining amounts in this window
	many   int         // number of values in recent
	served int         // responses in this window that were no refusals
}

// hasShown reports whether a response of late showed that just so much was left. Two
// responses of one counter never show the same.
func (k *record) hasShown(left float64) bool {
	return slices.Contains(k.recent[:min(k.many, len(k.recent))], left)
}

// running reports whether the window that was shown is certainly not over.
func (k *record) running(now time.Time, window time.Duration) bool {
	switch {
	case !k.reset.IsZero():
		return now.Add(tolerance(k.resolution, 0)).Before(k.reset)
	case window > 0:
		return now.Before(k.heard.Add(window))
	}
	return now.Before(k.heard.Add(time.Minute))
}

// sameReset reports whether a reset can be the one that was shown. An unknown reset can.
func (k *record) sameReset(reset time.Time, resolution time.Duration) bool {
	return k.reset.IsZero() || reset.IsZero() || k.reset.Sub(reset).Abs() <= tolerance(k.resolution, resolution)
}

// sameAmount reports whether two records have shown the same amount, which one counter
// does not.
func (k *record) sameAmount(o *record) bool {
	return slices.ContainsFunc(k.recent[:min(k.many, len(k.recent))], o.hasShown)
}

// sameEnd reports whether two windows certainly end together.
func (k *record) sameEnd(o *record) bool {
	return !k.reset.IsZero() && !o.reset.IsZero() && k.sameReset(o.reset, o.resolution)
}

// sameRefill reports whether two responses look like one bucket whose reset is when it
// is full: the units that were used come back by then at one rate. The reset of a window
// does not depend on its use.
func (k *record) sameRefill(g *group, h *observation) bool {
	left := h.said.Remaining
	if !g.amount.Known || !left.Known || !k.left.Known || h.said.Reset.IsZero() || k.reset.IsZero() || k.heard.IsZero() {
		return false
	}
	low, high := unitTime(k.reset.Sub(k.heard), k.resolution, g.amount.N-k.left.N)
	least, most := unitTime(h.said.Reset.Sub(h.now), h.said.Resolution, g.amount.N-left.N)
	return high > 0 && most > 0 && low <= most && least <= high
}

// tolerance returns by how much two announcements of one reset may differ.
func tolerance(a, b time.Duration) time.Duration {
	return min(max(a, b, 0), time.Minute) + 3*time.Second
}

// unitTime returns how many seconds a unit takes to come back, at least and at most, if
// the used units are back in so long. Part of the last unit may be back already.
func unitTime(in, resolution time.Duration, used float64) (least, most float64) {
	if used < 3 || in <= 0 {
		return 0, 0 // too few to tell
	}
	slack := max(resolution, 10*time.Millisecond)
	return max((in-slack).Seconds(), 0) / used, (in + slack).Seconds() / (used - 1)
}
