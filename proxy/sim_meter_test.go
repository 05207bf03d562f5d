package proxy

import (
	"math"
	"time"
)

// simMeter is one limit of a simulated site for one credential. It shares no code with
// limit, which it checks. Times are by the site's clock.
type simMeter interface {
	room(now time.Time, n float64) bool
	take(now time.Time, n float64)
	refill(now time.Time) time.Time // when the limit is full again
	left(now time.Time) float64

	// used is what was taken in windows that have ended, and allowed what a client could
	// have taken that always had a request waiting; slack is how late such a client may
	// learn of a new window. sum is everything that was taken.
	sum() float64
	used(now time.Time) float64
	allowed(now time.Time, span, slack time.Duration) float64
}

// simWindow is a window for each credential, which begins with the first request or is
// aligned to the clock.
type simWindow struct {
	limit   float64
	per     time.Duration
	aligned bool

	start  time.Time // of the window that is open; zero is none
	in     float64   // taken in it
	total  float64
	opened int
}

func (w *simWindow) roll(now time.Time) {
	if w.aligned {
		if start := now.Truncate(w.per); !start.Equal(w.start) {
			w.start, w.in = start, 0
		}
		return
	}
	if !w.start.IsZero() && !now.Before(w.start.Add(w.per)) {
		w.start, w.in = time.Time{}, 0
	}
}

func (w *simWindow) room(now time.Time, n float64) bool {
	w.roll(now)
	return w.in+n <= w.limit
}

func (w *simWindow) take(now time.Time, n float64) {
	w.roll(now)
	if w.in == 0 {
		w.opened++
	}
	if w.start.IsZero() {
		w.start = now
	}
	w.in += n
	w.total += n
}

func (w *simWindow) left(now time.Time) float64 {
	w.roll(now)
	return w.limit - w.in
}

func (w *simWindow) refill(now time.Time) time.Time {
	w.roll(now)
	if w.start.IsZero() {
		return now.Add(w.per)
	}
	return w.start.Add(w.per)
}

func (w *simWindow) sum() float64 { return w.total }

// used leaves out a window that is still open at the end, because no client could have used
// it up.
func (w *simWindow) used(now time.Time) float64 {
	if w.roll(now); w.aligned || w.start.IsZero() {
		return w.total
	}
	return w.total - w.in
}

func (w *simWindow) allowed(now time.Time, span, slack time.Duration) float64 {
	if w.aligned {
		return w.limit * float64((span+w.per/2)/w.per)
	}
	// By the windows that were opened: where a window is shorter than a round trip, a client
	// learns of its end when the next window could already be used up, so no client can use
	// every second window. A window that a client could have opened although it learned of
	// the end late counts, whether it was opened or not.
	opened := w.opened
	if w.roll(now); !w.start.IsZero() {
		opened--
	}
	return w.limit * float64(max(opened, int(span/(w.per+slack))))
}

// simBucket refills continuously.
type simBucket struct {
	size, rate float64 // in all, and a second

	taken float64 // of what was there at the time at
	at    time.Time
	total float64
}

// roundingError is what floating point may lose.
const roundingError = 1e-6

func (b *simBucket) flow(now time.Time) {
	if !b.at.IsZero() {
		b.taken = max(0, b.taken-b.rate*now.Sub(b.at).Seconds())
	}
	b.at = now
}

func (b *simBucket) room(now time.Time, n float64) bool {
	b.flow(now)
	return b.taken+n <= b.size+roundingError
}

func (b *simBucket) take(now time.Time, n float64) {
	b.flow(now)
	b.taken += n
	b.total += n
}

func (b *simBucket) left(now time.Time) float64 {
	b.flow(now)
	return b.size - b.taken
}

func (b *simBucket) refill(now time.Time) time.Time { return now.Add(b.until(now, b.size)) }

// until is how long n units are not there.
func (b *simBucket) until(now time.Time, n float64) time.Duration {
	b.flow(now)
	lacks := b.taken + n - b.size
	return time.Duration(max(0, math.Ceil(lacks/b.rate*1e9-1e9*roundingError)))
}

func (b *simBucket) sum() float64 { return b.total }

func (b *simBucket) used(time.Time) float64 { return b.total }

func (b *simBucket) allowed(_ time.Time, span, _ time.Duration) float64 {
	return b.size + b.rate*span.Seconds()
}
