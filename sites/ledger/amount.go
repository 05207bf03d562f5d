package ledger

import (
	"math"
	"time"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)

	// maxAhead is how far in the future an announced time may be, and unbelievableHold
	// replaces longer times.
	maxAhead         = 31 * 24 * hour
	unbelievableHold = 24 * hour

	// maxAmount is the largest amount of anything, so that sums cannot overflow.
	maxAmount = int64(1) << 50
)

// plus is v plus a number of seconds, clamped.
func plus(v int64, seconds float64) int64 {
	n := seconds * float64(second)
	if !(n < float64(maxAhead)) {
		return v + maxAhead
	}
	return v + int64(math.Ceil(max(n, 0)))
}

// number is an announced amount, -1 if unknown.
func number(n float64, known bool) float64 {
	if !known || math.IsNaN(n) {
		return -1
	}
	return min(max(n, 0), float64(maxAmount))
}

func whole(n float64) int64 { return int64(min(max(n, -float64(maxAmount)), float64(maxAmount))) }

func amount(n int64) int64 { return min(max(n, 0), maxAmount) }
