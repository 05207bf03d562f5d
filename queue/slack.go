package queue

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// slackPart is the part of a limit of bytes that may have come beyond it: what lies
	// in the receive buffers of its connections, all together.
	slackPart = 64
	// slackEach is the part of what is left of that which one connection gets, so that
	// there is some for those that come after it.
	slackEach = 8
)

// Slack is what a connection may receive beyond the limits of bytes.
type Slack struct {
	site  *site
	slots []*Slot
	n     int64 // zero: it was given back
}

// SlackOf is how much the connections under some limits may receive beyond the
// smallest of those that count bytes.
func SlackOf(limits []Limit) int64 {
	least := int64(math.MaxInt64)
	for i := range limits {
		if l := &limits[i]; l.Of == Bytes {
			least = min(least, slackOf(l))
		}
	}
	return least
}

func slackOf(l *Limit) int64 {
	switch spec := l.Spec; {
	case spec == nil: // nobody knows how large it is
		return 0
	case spec.As == limit.Bucket && spec.Burst > 0:
		return spec.Burst / slackPart
	default:
		return spec.Amount / slackPart
	}
}

const (
	// bufferPart is the part of a limit of bytes that one connection may receive before
	// anybody reads it, where what comes in bufferTime is not more.
	bufferPart = 64
	bufferTime = 50 * time.Millisecond
	// bufferMost is the largest part.
	bufferMost = 32
	// leastBuffer and mostBuffer bound it: with less than the first the system's own
	// work is larger than what passes.
	leastBuffer, mostBuffer = 4608, 32 << 10
)

// BufferOf is how much the system may take of a connection under some limits before
// anybody reads it. That is paid for before anything is asked for on it, so a small one
// lets more of them go at once, and a large one is faster over long distances.
func BufferOf(limits []Limit) int64 {
	n := int64(mostBuffer)
	for i := range limits {
		l := &limits[i]
		if l.Of != Bytes || l.Spec == nil {
			continue
		}
		spec := l.Spec
		amount := spec.Amount
		if spec.As == limit.Bucket && spec.Burst > 0 {
			amount = min(amount, spec.Burst)
		}
		even := int64(0)
		if spec.Window > 0 {
			even = int64(float64(spec.Amount) / float64(spec.Window) * float64(bufferTime))
		}
		n = min(n, max(amount/bufferPart, min(even, amount/bufferMost)))
	}
	return max(n, leastBuffer)
}

// Slack lends a connection the largest of some sizes, in order, that leaves some for
// others, or the last if there is room for it; nil is none. Where several keep the
// limits together, this is one of so many.
func (t *Tap) Slack(among int, sizes ...int64) *Slack {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed || len(sizes) == 0 {
		return nil
	}
	t.follow(time.Now())
	left := int64(math.MaxInt64)
	for i, slot := range t.slots {
		left = min(left, t.slack[i]/int64(max(among, 1))-slot.beyond)
	}
	n := int64(0)
	for _, size := range sizes {
		if size <= left/slackEach {
			n = size
			break
		}
	}
	if last := sizes[len(sizes)-1]; n == 0 && last <= left {
		n = last
	}
	if n <= 0 {
		return nil
	}
	for _, slot := range t.slots {
		slot.beyond += n
	}
	return &Slack{site: s, slots: t.slots, n: n}
}

// Bytes is how much it is.
func (k *Slack) Bytes() int64 { return k.n }

// End gives it back, once.
func (k *Slack) End() {
	k.site.mu.Lock()
	defer k.site.mu.Unlock()
	for _, slot := range k.slots {
		slot.beyond -= k.n
	}
	k.slots = nil
}
