package limit

import "time"

const (
	// marginPart: a take may be in flight for window/marginPart before
	// it counts: so little that at least 99 % of the limit is used.
	marginPart = 128
	// minMargin is the margin of short windows, where the way to a server is
	// longer than that part.
	minMargin = int64(5 * time.Millisecond)
	// marginDivisor is the largest part of a window.
	marginDivisor = 8
)

// margin is how long after Take a request may arrive so that the limit is kept. A take
// counts from when its request is done, but at most from a margin after it: a request may
// last for hours, and arrives early in that time. It is 1/128 of the window and at least 5
// ms, but at most an eighth of the window.
func margin(window int64) int64 {
	return min(max(window/marginPart, minMargin), window/marginDivisor)
}
