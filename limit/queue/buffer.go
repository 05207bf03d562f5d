package queue

import "time"

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
	// widePart is the part of a limit that one connection may receive ahead where that is
	// more than mostBuffer, and widest the largest such buffer in bytes.
	widePart, widest = 1024, 64 << 20
)

// BufferOf is how many bytes the system may receive on a connection under some limits
// before they are read. They are paid for before anything is asked for on the connection,
// so a small buffer lets more connections go at once, and a large buffer is faster over
// long distances. Where a limit is so loose that each connection takes a small part of it,
// buffers are large.
func BufferOf(limits []Limit) int64 {
	n, wide := int64(mostBuffer), int64(widest)
	for i := range limits {
		l := &limits[i]
		if l.Of != Bytes {
			continue
		}
		if l.Spec == nil { // nobody knows how large it is
			wide = 0
			continue
		}
		spec := l.Spec
		amount := min(spec.Amount, spec.AtOnce())
		wide = min(wide, amount/widePart)
		even := int64(0)
		if spec.Window > 0 {
			even = int64(float64(spec.Amount) / float64(spec.Window) * float64(bufferTime))
		}
		n = min(n, max(amount/bufferPart, min(even, amount/bufferMost)))
	}
	return max(n, wide, leastBuffer)
}
