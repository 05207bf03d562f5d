package bandwidth

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
)

const (
	// loosePart: a limit is loose while everything that its connections may receive unread,
	// and the step by which credit is taken, are under 1/loosePart of it.
	loosePart = 100
	// leastLoose is the smallest loose limit in bytes. The credit of smaller ones is exact
	// at each moment.
	leastLoose = 100_000_000
	// looseSteps is the number of steps in that part.
	looseSteps = 40
	// looseRetry is the time after which a limit is tried again that was not loose.
	looseRetry = 50 * time.Millisecond
	// leastLooseWindow is the shortest common window of loose limits.
	leastLooseWindow = 100 * time.Millisecond
)

// looseCredit is credit of loose limits, taken in steps before the bytes pass. While it covers
// what connections may receive unread, their bytes are counted only: no read or write waits.
// Otherwise each read and write takes its own credit.
//
// Credit is used in the window in which it was taken; what is left at the end goes back. So
// no window has more bytes than its limit.
type looseCredit struct {
	part   atomic.Int64 // bytes of the limits that may be taken ahead; 0: never loose
	window atomic.Int64 // nanoseconds: every window of the limits is a multiple
	unread atomic.Int64 // bytes that the connections may receive before anything is counted
	credit atomic.Int64 // bytes that were taken and have not passed; below 0: passed without credit
	ends   atomic.Int64 // end of the window of the credit, in nanoseconds since 1970
	on     atomic.Bool  // the credit covers what is unread

	mu     sync.Mutex // serialises refills
	retry  atomic.Int64
	source *queue.ByteSource // guarded by mu; nil before the first refill
}

// looseLimits returns the number of bytes that may be taken ahead of some limits, and the
// common window of all; 0 if they are never loose. Credit of other than windows of the clock
// would count in intervals in which it is not used. Limits that a fleet shares are never
// loose: each instance would take its part ahead.
func looseLimits(rules *Rules) (part, window int64) {
	if !rules.Enforce || rules.Fleet {
		return 0, 0
	}
	part = math.MaxInt64
	for i := range rules.Limits {
		spec := rules.Limits[i].Spec
		if spec == nil || spec.Traits().Returns != limit.AtEdges || spec.Amount < leastLoose {
			return 0, 0
		}
		length := int64(spec.Window)
		if spec.Traits().Calendar {
			length = int64(time.Minute)
		}
		part, window = min(part, spec.Amount/loosePart), commonDivisor(length, window)
	}
	if window < int64(leastLooseWindow) {
		return 0, 0
	}
	return part, window
}

func commonDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// CountedOnly implements upstream.Windowed.
func (b *SiteBudget) CountedOnly() bool {
	l := &b.loose
	switch {
	case l.on.Load():
		return true
	case l.part.Load() == 0:
		return false
	}
	now := time.Now()
	return now.UnixNano() >= l.retry.Load() && b.refillLoose(now)
}

// Hold implements upstream.Windowed.
func (b *SiteBudget) Hold(n int) {
	b.loose.unread.Add(int64(n))
	b.Pay(0)
}

// Pay implements upstream.Windowed.
func (b *SiteBudget) Pay(n int) {
	l := &b.loose
	if l.part.Load() == 0 {
		return
	}
	if !l.on.Load() {
		l.credit.Add(-int64(n))
		return
	}
	b.touch()
	now := time.Now()
	if now.UnixNano() >= l.ends.Load() {
		b.refillLoose(now) // the bytes may have come after the end
	}
	if l.credit.Add(-int64(n)) < l.unread.Load() {
		b.refillLoose(now)
	}
}

// refillLoose takes the next step of credit, and returns whether the limits are loose.
func (b *SiteBudget) refillLoose(now time.Time) bool {
	l := &b.loose
	l.mu.Lock()
	defer l.mu.Unlock()
	part, window := l.part.Load(), l.window.Load()
	if part == 0 { // since a moment ago
		return false
	}
	if l.source == nil {
		l.source = b.source(false)
	}
	if at := now.UnixNano(); at >= l.ends.Load() {
		b.refundLoose()
		l.ends.Store((at/window + 1) * window)
	}
	unread := l.unread.Load()
	if l.on.Load() && l.credit.Load() >= unread {
		return true // another has refilled it
	}
	loose, need := false, max(unread+part/looseSteps-l.credit.Load(), 1)
	if unread+part/looseSteps <= part {
		got, err := l.source.Take(nil, need, need, now)
		loose = err == nil && got == need
		l.credit.Add(got)
	}
	if !loose {
		l.retry.Store(now.Add(looseRetry).UnixNano())
	}
	l.on.Store(loose)
	return loose
}

// refundLoose gives back what is left of the credit. The caller holds the lock.
func (b *SiteBudget) refundLoose() {
	if rest := b.loose.credit.Swap(0); rest > 0 {
		b.loose.source.Refund(rest)
	}
}

// setLoose sets the limits, after giving back the credit of those before. The zero Rules have
// none that is ever loose.
func (b *SiteBudget) setLoose(rules *Rules) {
	l := &b.loose
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(false)
	b.refundLoose()
	part, window := looseLimits(rules)
	l.ends.Store(0)
	l.window.Store(window)
	l.part.Store(part)
}

// closeLoose ends the credit of a budget that nobody uses.
func (b *SiteBudget) closeLoose() {
	b.setLoose(&Rules{})
	b.loose.mu.Lock()
	defer b.loose.mu.Unlock()
	if b.loose.source != nil {
		b.loose.source.Close()
	}
}
