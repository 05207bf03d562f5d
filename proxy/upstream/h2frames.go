package upstream

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
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

	flagEndStream  = 1
	flagAck        = 1
	flagEndHeaders = 4
	flagPadded     = 8

	codeRefused = 7 // of a RST_STREAM: the request was not processed

	frameHead     = 9
	prefaceLength = 24
)

const (
	errUselessFrames = malformedAnswer("too many HTTP/2 frames that bring nothing")
	errAbandonedData = malformedAnswer("too much of answers that were given up")
)

// frameMonitor parses the frame headers that pass on an HTTP/2 connection. It reports an
// origin that keeps the connection busy with frames that serve no request: net/http would
// read them without end. Safe for concurrent use.
type frameMonitor struct {
	now func() time.Time

	mu                 sync.Mutex
	in, out            frameHeads
	open               map[uint32]struct{} // streams whose answer is not complete
	uselessLeft        int                 // useless frames that are still allowed
	lastRefill         time.Time           // when time last added to the allowance
	abandonedBytesLeft int64               // bytes still allowed for streams that are not open
	inHeaderBlock      bool                // a header block has begun and not ended
	blockStream        uint32              // stream of that block, if its answer is expected

	newest        uint32              // the last stream that was opened
	claimed       uint32              // the last stream that an exchange has claimed
	refused       map[uint32]struct{} // open streams that the origin has refused
	settingsBegan bool                // the origin's first settings have begun
	settingsRead  bool                // and were read completely
	lastGoAway    goAway              // the origin's last GOAWAY
	hasGoAway     atomic.Bool         // a GOAWAY was received
}

// goAway is a GOAWAY frame: streams above last were not and will not be processed.
type goAway struct {
	last uint32
	code uint32
}

func newFrameMonitor(now func() time.Time) *frameMonitor {
	return &frameMonitor{now: now, out: frameHeads{rest: prefaceLength}, open: map[uint32]struct{}{}, refused: map[uint32]struct{}{}, uselessLeft: maxUselessFrames, lastRefill: now()}
}

// read takes bytes received from the origin. The error is that the origin sends too much.
func (f *frameMonitor) read(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		var ok bool
		if b, ok = f.in.next(b); !ok {
			f.settingsRead = f.settingsRead || f.settingsBegan && f.in.rest == 0
			return nil
		}
		if err := f.receivedFrame(f.in.kind(), f.in.flags(), f.in.stream(), f.in.length()); err != nil {
			return err
		}
	}
}

// wrote takes bytes sent to the origin.
func (f *frameMonitor) wrote(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		var ok bool
		if b, ok = f.out.next(b); !ok {
			return
		}
		f.sentFrame(f.out.kind(), f.out.flags(), f.out.stream(), f.out.length())
	}
}

func (f *frameMonitor) sentFrame(kind, flags byte, stream uint32, length int) {
	switch kind {
	case frameHeaders:
		f.open[stream] = struct{}{} // trailers open it again, before the answer's end
		f.newest = max(f.newest, stream)
		f.add(uselessPerRequest)
	case frameData:
		f.add(uselessPerBodyFrame + length*uselessPerKiB>>10)
	case frameReset:
		if _, open := f.open[stream]; open {
			delete(f.open, stream)
			f.abandonedBytesLeft += maxAbandonedBytes
		}
		if stream == f.blockStream {
			f.blockStream = 0
		}
		f.add(1)
	case framePing:
		if flags&flagAck == 0 {
			f.add(1)
		}
	}
}

func (f *frameMonitor) receivedFrame(kind, flags byte, stream uint32, length int) error {
	_, open := f.open[stream]
	idle := true
	switch kind {
	case frameData:
		// A short padded frame may consist of padding only.
		idle = length == 0 || flags&flagPadded != 0 && length <= 256
	case frameHeaders:
		f.inHeaderBlock, f.blockStream = flags&flagEndHeaders == 0, 0
		if open {
			f.blockStream = stream
		}
	case frameContinuation:
		// The HEADERS frame before it may have ended the stream.
		f.inHeaderBlock, open = flags&flagEndHeaders == 0, stream == f.blockStream
	case frameReset:
		if open && f.in.word(0) == codeRefused && len(f.refused) < maxUselessFrames {
			f.refused[stream] = struct{}{}
		}
		delete(f.open, stream)
	case frameSettings:
		f.settingsBegan = true
	case frameGoAway:
		f.lastGoAway = goAway{last: f.in.word(0) & 0x7fffffff, code: f.in.word(1)}
		f.hasGoAway.Store(true)
	}
	f.settingsRead = f.settingsRead || f.settingsBegan && kind != frameSettings
	if (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0 {
		delete(f.open, stream)
	}
	if !open && (kind == frameData || kind == frameHeaders || kind == frameContinuation) {
		if f.abandonedBytesLeft -= int64(max(length, minFrameCost)); f.abandonedBytesLeft < 0 {
			return errAbandonedData
		}
	}
	if !idle {
		return nil
	}
	if f.uselessLeft--; f.uselessLeft < 0 && !f.refillByTime() {
		return errUselessFrames
	}
	return nil
}

// add raises the allowance of useless frames.
func (f *frameMonitor) add(n int) { f.uselessLeft = min(f.uselessLeft+n, maxUselessFrames) }

// refillByTime adds the allowance of the time since lastRefill, and tells whether any is
// left.
func (f *frameMonitor) refillByTime() bool {
	now, rate := f.now(), uselessPerBusySecond
	if len(f.open) == 0 {
		rate = uselessPerIdleSecond
	}
	more := int(min(now.Sub(f.lastRefill), time.Hour).Seconds() * float64(rate))
	if more > 0 {
		f.lastRefill = now
		f.add(more)
	}
	return f.uselessLeft >= 0
}

// headerBlockOpen tells whether a header block has begun and not ended.
func (f *frameMonitor) headerBlockOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inHeaderBlock
}

// claim returns the stream that was opened last, if no exchange has claimed it yet;
// otherwise 0.
func (f *frameMonitor) claim() (stream uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newest == f.claimed {
		return 0
	}
	f.claimed = f.newest
	return f.newest
}

// forget is called when an exchange has ended.
func (f *frameMonitor) forget(stream uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.refused, stream)
}

// unprocessed reports whether the origin said that it did not process a stream, and whether
// the request may be sent again at once. An origin that ends a new connection with an error
// is not asked again: the next connection would fail, too.
func (f *frameMonitor) unprocessed(stream uint32) (yes, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.refused[stream]; ok {
		return true, true
	}
	yes = f.hasGoAway.Load() && stream > f.lastGoAway.last
	return yes, yes && (f.lastGoAway.code == 0 || stream > 1)
}

// hasSettings reports whether the origin's first settings have passed.
func (f *frameMonitor) hasSettings() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settingsRead
}

// betweenFrames reports whether the last frame to the origin is complete, so that another
// may be sent.
func (f *frameMonitor) betweenFrames() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out.have > 0 || f.out.rest > 0 {
		return false
	}
	switch f.out.kind() {
	case frameHeaders, frameContinuation:
		return f.out.flags()&flagEndHeaders != 0
	default:
		return true
	}
}

// frameHeads finds frame headers in a byte stream that arrives in pieces. Not safe for
// concurrent use.
type frameHeads struct {
	head [frameHead + maxPayloadWords*4]byte // the frame header and, for some types, the first words of the payload
	have int                                 // bytes in head
	rest int                                 // bytes of the payload still to come
}

// maxPayloadWords is the number of 4-byte words of a payload that are kept at most.
const maxPayloadWords = 2

// next skips the rest of a payload and reads the next frame header. It returns the bytes
// behind the header, and whether the header is complete.
func (h *frameHeads) next(b []byte) ([]byte, bool) {
	n := min(h.rest, len(b))
	h.rest -= n
	b = b[n:]
	if h.rest > 0 {
		return nil, false
	}
	b = h.fill(b, frameHead)
	if h.have < frameHead {
		return nil, false
	}
	whole := frameHead + h.kept()
	b = h.fill(b, whole)
	if h.have < whole {
		return nil, false
	}
	h.have = 0
	h.rest = h.length() - h.kept()
	return b, true
}

// fill takes bytes from b until head has the given number.
func (h *frameHeads) fill(b []byte, whole int) []byte {
	if h.have >= whole {
		return b
	}
	n := copy(h.head[h.have:whole], b)
	h.have += n
	return b[n:]
}

// kept returns the number of bytes of the payload that are kept.
func (h *frameHeads) kept() int {
	words := 0
	switch h.kind() {
	case frameReset:
		words = 1
	case frameGoAway:
		words = 2
	}
	return min(h.length(), words*4)
}

// word returns a kept word of the payload; 0 if it was not kept.
func (h *frameHeads) word(n int) uint32 {
	if h.kept() < (n+1)*4 {
		return 0
	}
	return binary.BigEndian.Uint32(h.head[frameHead+n*4:])
}

func (h *frameHeads) length() int {
	return int(h.head[0])<<16 | int(h.head[1])<<8 | int(h.head[2])
}

func (h *frameHeads) kind() byte     { return h.head[3] }
func (h *frameHeads) flags() byte    { return h.head[4] }
func (h *frameHeads) stream() uint32 { return binary.BigEndian.Uint32(h.head[5:]) & 0x7fffffff }
