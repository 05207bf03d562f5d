package limit

import "time"

const (
	// marginPart is the part of a window for which a take may be in flight before
	// it counts: so little that at least 99 % of the limit is used.
	marginPart = 128
	// marginLeast is the margin of short windows, where the way to a server is
	// longer than that part.
	marginLeast = int64(5 * time.Millisecond)
	// marginMost is the largest part of a window.
	marginMost = 8
)

// margin is how long after Take a request may arrive so that the promise holds.
// A take counts from when its request is done, but no later than that: a request
// may last for hours, and has arrived long before. It is 1/128 of the window and
// at least 5 ms, but never more than an eighth of the window.
func margin(window int64) int64 {
	return min(max(window/marginPart, marginLeast), window/marginMost)
}
