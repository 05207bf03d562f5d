package lease

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

const (
	// maxAmount is the largest amount, as in package limit.
	maxAmount = int64(1) << 50
	// minSlot is the minimum length of a slot. Units granted for a slot can be used when it
	// has surely begun and has surely not ended, and that is not known better than an ask
	// takes: on a slow network a shorter slot may pass unused.
	minSlot = 250 * time.Millisecond
	// maxSlots is the maximum number of slots of a window. One slot's worth of a window is
	// not used.
	maxSlots = 128
)

// budget describes a limit in the store's terms.
type budget struct {
	kind   store.Kind
	amount int64
	window time.Duration
	slots  int        // of a window; 0: windows are not divided
	width  int64      // of a window or slot in nanoseconds; for calendars, the longest
	period limit.Spec // Quota
	once   bool       // of one window that ends before anything of it is returned
}

// shareable makes the budget of a limit that a fleet can share. ok is false for other
// limits.
func shareable(spec limit.Spec) (b budget, ok bool) {
	if !spec.Shareable() {
		return budget{}, false
	}
	b = budget{amount: spec.Amount, window: spec.Window}
	switch spec.Traits().Fleet {
	case limit.ByWindow:
		b.kind = store.Fixed
	case limit.BySlot:
		b.kind = store.Rolling
		b.slots = int(min(max(spec.Window/minSlot, 4), maxSlots))
	case limit.ByPeriod:
		b.kind, b.width = store.Quota, int64(spec.Length())
		b.period = limit.Spec{As: spec.As, Amount: 1, Period: spec.Period, Location: spec.Location}
		return b, true
	case limit.ByHalfBurst:
		// Two adjacent windows together allow no more than a burst, however close the takes
		// are, and no more than the bucket's rate on average.
		b.kind, b.amount = store.Fixed, spec.AtOnce()/2
		b.window = time.Duration(float64(b.amount) * float64(spec.Window) / float64(spec.Amount))
		b.window = max(b.window, time.Microsecond)
	}
	b.width = int64(store.Width(&store.Ask{Kind: b.kind, Window: b.window, Slots: b.slots}))
	return b, true
}

// compatible tells whether leases of one budget have the same meaning in another.
func (b *budget) compatible(o *budget) bool {
	return b.kind == o.kind && b.window == o.window && b.slots == o.slots && b.period == o.period
}

// countsFor returns the time for which a window counts after its end.
func (b *budget) countsFor() int64 { return int64(b.slots) * b.width }

// counted returns the first window that still counts in the given window.
func (b *budget) counted(window int64) int64 { return window - int64(b.slots) }

// next returns the following window, and its length.
func (b *budget) next(window int64) (number, length int64) {
	number = window + 1
	if b.kind == store.Quota {
		_, ends := limit.WindowAt(time.Unix(window, 0), b.period)
		number = ends.Unix()
	}
	return number, b.length(number)
}

// length returns the length of a window.
func (b *budget) length(window int64) int64 {
	if b.kind != store.Quota {
		return b.width
	}
	begins, ends := limit.WindowAt(time.Unix(window, 0), b.period)
	return int64(ends.Sub(begins))
}

// edges lists the calendar boundaries around a time, enough for a store whose clock
// differs.
func (b *budget) edges(now time.Time) []time.Time {
	begins, at := limit.WindowAt(now, b.period)
	before, _ := limit.WindowAt(begins.Add(-1), b.period)
	list := []time.Time{before, begins}
	for range 3 {
		list = append(list, at)
		_, at = limit.WindowAt(at, b.period)
	}
	return list
}

// at returns the window at a wall-clock time, and the time since it began.
func (b *budget) at(now time.Time) (window, since int64) {
	if b.kind == store.Quota {
		begins, _ := limit.WindowAt(now, b.period)
		return begins.Unix(), int64(now.Round(0).Sub(begins))
	}
	v := now.UnixNano()
	return v / b.width, v % b.width
}

const (
	marginPart    = 128
	marginLeast   = 50 * int64(time.Millisecond)
	marginDivisor = 8
	marginLong    = int64(time.Second)
)

// margin returns the time before the end of a window at which sending stops, so that
// requests arrive within it. As in package limit, but bounded so that the end of a day or
// month has no noticeable pause.
func margin(width int64) int64 {
	return min(max(width/marginPart, marginLeast), width/marginDivisor, marginLong)
}

// blockedUntil returns the time before which a window may not be used because it has not
// begun by the store's clock as it was before it was set: the window present then may have
// been used. 0: it may be used.
func (b *budget) blockedUntil(c *storeClock, at instant, window int64) (until int64) {
	if !c.set {
		return 0
	}
	for _, s := range append(c.steps, step{at.low, at.low + c.low - c.tolerance(at), c.latest(at)}) {
		if b.begins(window) <= s.high {
			continue
		}
		present, since := b.at(time.Unix(0, s.high))
		until = max(until, s.at+(s.high-s.low)-since+b.length(present)+b.countsFor())
	}
	return until
}

// begins returns the start of a window, in nanoseconds since 1970.
func (b *budget) begins(window int64) int64 {
	if b.kind == store.Quota {
		return window * int64(time.Second)
	}
	return window * b.width
}

// ends returns the end of a window, in nanoseconds since 1970.
func (b *budget) ends(window int64) int64 { return b.begins(window) + b.length(window) }

// Outage is the rule of a shared meter while the store does not answer, as the configuration names it. Who adds a rule
// also changes allowed.
type Outage string

// The ways through an outage.
const (
	Share  Outage = "share"  // the units left at the last answer, divided by the number of members; then a member's part of each window
	Strict Outage = "strict" // leased units only
	Open   Outage = "open"   // the whole amount, by this instance alone
)

// Loan is the units taken of a limit without the store.
type Loan struct {
	Key       string
	Outage    Outage
	N, Amount int64
	Away      time.Duration // how long the store had been away
}
