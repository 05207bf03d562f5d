package lease

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

const (
	// most is the largest amount, as in package limit.
	most = int64(1) << 50
	// shortest is how long a slot is at least. What is granted for one can be used when
	// it has surely begun and has surely not ended, and that is not known better than
	// it takes to ask: on a slow network a shorter one may pass unused.
	shortest = 250 * time.Millisecond
	// finest is into how many slots a window is divided at most. One slot's worth of
	// a window is not used.
	finest = 128
)

// budget is a limit as a store knows it.
type budget struct {
	kind   store.Kind
	amount int64
	window time.Duration
	slots  int
	width  int64      // of a window or slot: of a calendar's, the longest
	period limit.Spec // Quota
	once   bool       // of one window that ends before anything of it comes back
}

// Shareable tells whether a fleet can share a limit. Others are each instance's own.
func Shareable(spec limit.Spec) bool {
	_, ok := shareable(spec)
	return ok
}

func shareable(spec limit.Spec) (budget, bool) {
	if _, err := limit.New(spec); err != nil {
		return budget{}, false
	}
	b := budget{amount: spec.Amount, window: spec.Window}
	switch spec.As {
	case limit.Fixed:
		b.kind = store.Fixed
	case limit.Rolling, limit.FirstUse:
		b.kind = store.Rolling
		b.slots = int(min(max(spec.Window/shortest, 4), finest))
	case limit.Quota:
		b.kind, b.width = store.Quota, int64(25*time.Hour)
		switch spec.Period {
		case limit.Week:
			b.width = int64(7*24*time.Hour + time.Hour)
		case limit.Month:
			b.width = int64(31*24*time.Hour + time.Hour)
		}
		b.period = limit.Spec{As: limit.Quota, Amount: 1, Period: spec.Period, Location: spec.Location}
		return b, true
	case limit.Bucket:
		burst := spec.Burst
		if burst == 0 {
			burst = spec.Amount
		}
		if burst < 2 {
			return budget{}, false
		}
		// Of two windows next to each other no more than a burst is used, however
		// close, and no more than the bucket's rate on average.
		b.kind, b.amount = store.Fixed, burst/2
		b.window = time.Duration(float64(b.amount) * float64(spec.Window) / float64(spec.Amount))
		b.window = max(b.window, time.Microsecond)
	default:
		return budget{}, false
	}
	b.width = int64(store.Width(&store.Ask{Kind: b.kind, Window: b.window, Slots: b.slots}))
	return b, true
}

// same tells whether what is held of one budget means the same in another.
func (b *budget) same(o *budget) bool {
	return b.kind == o.kind && b.window == o.window && b.slots == o.slots && b.period == o.period
}

// counts is for how long a window counts after its end.
func (b *budget) counts() int64 {
	if b.kind == store.Rolling {
		return int64(b.slots) * b.width
	}
	return 0
}

// counted is the first window that counts in another one.
func (b *budget) counted(window int64) int64 {
	if b.kind == store.Rolling {
		return window - int64(b.slots)
	}
	return window
}

// next is the window after one, and how long it is.
func (b *budget) next(window int64) (number, length int64) {
	if b.kind != store.Quota {
		return window + 1, b.width
	}
	begins := b.after(time.Unix(window, 0))
	return begins.Unix(), int64(b.after(begins).Sub(begins))
}

// length is how long a window is.
func (b *budget) length(window int64) int64 {
	if b.kind != store.Quota {
		return b.width
	}
	begins := time.Unix(window, 0)
	return int64(b.after(begins).Sub(begins))
}

// after is the first edge of the calendar after a time: when a quota of one that is
// used up can be used again.
func (b *budget) after(t time.Time) time.Time {
	m, err := limit.New(b.period)
	if err != nil {
		return t.Add(time.Duration(b.width))
	}
	m.Take(t, 1)
	at, _ := m.When(t, 1)
	return at
}

// edges are those of the calendar around a time: enough of them for a store whose
// clock shows another one.
func (b *budget) edges(now time.Time) []time.Time {
	list := []time.Time{b.after(now.Round(0).Add(-3 * time.Duration(b.width)))}
	for list[len(list)-1].Before(now) {
		list = append(list, b.after(list[len(list)-1]))
	}
	for range 2 {
		list = append(list, b.after(list[len(list)-1]))
	}
	return slices.Clone(list[max(len(list)-5, 0):])
}

// at is the window that a clock on the wall is in, and how long that has been going on.
func (b *budget) at(now time.Time) (window, since int64) {
	if b.kind == store.Quota {
		edges := b.edges(now)
		begins := edges[0]
		for _, e := range edges {
			if !e.After(now) {
				begins = e
			}
		}
		return begins.Unix(), int64(now.Round(0).Sub(begins))
	}
	v := now.UnixNano()
	return v / b.width, v % b.width
}

const (
	marginPart  = 128
	marginLeast = int64(5 * time.Millisecond)
	marginMost  = 8
	marginLong  = int64(time.Second)
)

// margin is how long before the end of a window nothing more is sent, so that what is
// on its way arrives in it: as in package limit, but never so long that somebody would
// notice that nothing goes at the end of a day or a month.
func margin(width int64) int64 {
	return min(max(width/marginPart, marginLeast), width/marginMost, marginLong)
}
