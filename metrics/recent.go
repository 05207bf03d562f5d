package metrics

import (
	"sync/atomic"
	"time"
)

// recent counts events by the second, for the last minute. The zero value is empty. It
// is safe for concurrent use.
type recent struct {
	seconds [64]atomic.Uint64 // :: Unix second modulo 64 → that second in the upper half, events in the lower
}

// add counts an event.
func (r *recent) add(now time.Time) {
	second := uint64(uint32(now.Unix()))
	at := &r.seconds[second%64]
	for {
		old := at.Load()
		next := old + 1
		if old>>32 != second {
			next = second<<32 | 1
		}
		if at.CompareAndSwap(old, next) {
			return
		}
	}
}

// lastMinute is the number of events in the last 60 seconds.
func (r *recent) lastMinute(now time.Time) (sum uint64) {
	second := uint64(uint32(now.Unix()))
	for i := range r.seconds {
		if word := r.seconds[i].Load(); second-word>>32 < 60 {
			sum += word & (1<<32 - 1)
		}
	}
	return sum
}
