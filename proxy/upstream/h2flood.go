package upstream

import (
	"encoding/binary"
	"sync"
	"time"
)

const (
	// maxUselessFrames bounds the frames that serve no request and that an origin may send
	// in a row. Requests and time add to the allowance.
	maxUselessFrames     = 1000
	uselessPerRequest    = 8   // for each request
	uselessPerBodyFrame  = 4   // for each frame of a body
	uselessPerKiB        = 4   // for each KiB of a body
	uselessPerBusySecond = 100 // for each second with a request under way
	uselessPerIdleSecond = 1   // for each second without

	// maxAbandonedBytes bounds the bytes of abandoned answers. The origin may not send more
	// than its window.
	maxAbandonedBytes = streamBuffer + 64<<10
	minFrameCost      = 64 // each frame counts as at least this many bytes
)

// Types and flags of frames (RFC 9113, 6).
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameContinuation = 9

	flagEndStream = 1
	flagAck       = 1
	flagPadded    = 8

	prefaceLength = 24
)

const (
	errUselessFrames = malformedAnswer("too many HTTP/2 frames that bring nothing")
	errAbandonedData = malformedAnswer("too much of answers that were given up")
)

// floodGuard counts the frames that pass on an HTTP/2 connection by their heads. It reports
// an origin that keeps the connection busy with frames that serve no request: net/http would
// read them without end. Safe for concurrent use.
type floodGuard struct {
	now func() time.Time

	mu                 sync.Mutex
	in, out            frameHeads
	open               map[uint32]struct{} // streams whose answer is not complete
	uselessLeft        int                 // useless frames that are still allowed
	lastRefill         time.Time           // when time last added to the allowance
	abandonedBytesLeft int64               // bytes still allowed for streams that are not open
	blockOpen          bool                // the last HEADERS frame belongs to a stream that was open

	newest, claimed uint32 // the last stream that was opened, and the last that an exchange has claimed
	goneAway        bool   // a GOAWAY was received
}

func newFloodGuard(now func() time.Time) *floodGuard {
	return &floodGuard{now: now, out: frameHeads{rest: prefaceLength}, open: map[uint32]struct{}{}, uselessLeft: maxUselessFrames, lastRefill: now()}
}

// read takes bytes received from the origin. The error is that the origin sends too much.
func (g *floodGuard) read(b []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ok := true; ; {
		if b, ok = g.in.next(b); !ok {
			return nil
		}
		if err := g.received(g.in.kind(), g.in.flags(), g.in.stream(), g.in.length()); err != nil {
			return err
		}
	}
}

// wrote takes bytes sent to the origin. It reports whether the origin's settings are
// acknowledged in them.
func (g *floodGuard) wrote(b []byte) (settled bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ok := true; ; {
		if b, ok = g.out.next(b); !ok {
			return settled
		}
		g.sent(g.out.kind(), g.out.flags(), g.out.stream(), g.out.length())
		settled = settled || g.out.kind() == frameSettings && g.out.flags()&flagAck != 0
	}
}

func (g *floodGuard) sent(kind, flags byte, stream uint32, length int) {
	switch kind {
	case frameHeaders:
		g.open[stream] = struct{}{} // trailers open it again, before the answer's end
		g.newest = max(g.newest, stream)
		g.add(uselessPerRequest)
	case frameData:
		g.add(uselessPerBodyFrame + length*uselessPerKiB>>10)
	case frameReset:
		if _, open := g.open[stream]; open {
			delete(g.open, stream)
			g.abandonedBytesLeft += maxAbandonedBytes
		}
		g.add(1)
	case framePing:
		if flags&flagAck == 0 {
			g.add(1)
		}
	}
}

func (g *floodGuard) received(kind, flags byte, stream uint32, length int) error {
	_, open := g.open[stream]
	useless, answer := true, false
	switch kind {
	case frameData:
		// A short padded frame may consist of padding only.
		useless, answer = length == 0 || flags&flagPadded != 0 && length <= 256, true
	case frameHeaders:
		g.blockOpen, answer = open, true
	case frameContinuation:
		// The HEADERS frame before it may have ended the stream.
		open, answer = g.blockOpen, true
	case frameReset:
		delete(g.open, stream)
	case frameGoAway:
		g.goneAway = true
	}
	if (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0 {
		delete(g.open, stream)
	}
	if answer && !open {
		if g.abandonedBytesLeft -= int64(max(length, minFrameCost)); g.abandonedBytesLeft < 0 {
			return errAbandonedData
		}
	}
	if !useless {
		return nil
	}
	if g.uselessLeft--; g.uselessLeft < 0 && !g.refillByTime() {
		return errUselessFrames
	}
	return nil
}

// add raises the allowance of useless frames.
func (g *floodGuard) add(n int) { g.uselessLeft = min(g.uselessLeft+n, maxUselessFrames) }

// refillByTime adds the allowance of the time since lastRefill, and tells whether any is
// left.
func (g *floodGuard) refillByTime() bool {
	now, rate := g.now(), uselessPerBusySecond
	if len(g.open) == 0 {
		rate = uselessPerIdleSecond
	}
	more := int(min(now.Sub(g.lastRefill), time.Hour).Seconds() * float64(rate))
	if more > 0 {
		g.lastRefill = now
		g.add(more)
	}
	return g.uselessLeft >= 0
}

// claim reports whether a stream was opened since the last claim.
func (g *floodGuard) claim() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	opened := g.newest != g.claimed
	g.claimed = g.newest
	return opened
}

// wentAway reports whether the origin has sent a GOAWAY.
func (g *floodGuard) wentAway() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.goneAway
}

// frameHeads finds the heads of frames in a byte stream that arrives in pieces. Not safe for
// concurrent use.
type frameHeads struct {
	head [9]byte
	have int // bytes in head
	rest int // bytes of the payload still to come
}

// next skips the rest of a payload and reads the next head. It returns the bytes behind the
// head, and whether the head is complete.
func (h *frameHeads) next(b []byte) ([]byte, bool) {
	n := min(h.rest, len(b))
	h.rest -= n
	b = b[n:]
	if h.rest > 0 {
		return nil, false
	}
	n = copy(h.head[h.have:], b)
	if h.have += n; h.have < len(h.head) {
		return nil, false
	}
	h.have, h.rest = 0, h.length()
	return b[n:], true
}

func (h *frameHeads) length() int    { return int(binary.BigEndian.Uint32(h.head[:]) >> 8) }
func (h *frameHeads) kind() byte     { return h.head[3] }
func (h *frameHeads) flags() byte    { return h.head[4] }
func (h *frameHeads) stream() uint32 { return binary.BigEndian.Uint32(h.head[5:]) & 0x7fffffff }
