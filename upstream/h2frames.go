package upstream

import (
	"encoding/binary"
	"sync"
	"time"
)

const (
	// mostSpare is how many frames in a row that bring nobody anything an origin may
	// send. Its requests add to that, and time.
	mostSpare     = 1000
	sparePerAsked = 8   // for each request
	sparePerSent  = 4   // for each frame of a body
	sparePerKiB   = 4   // the same, for its bytes
	sparePerBusy  = 100 // for each second with a request under way
	sparePerIdle  = 1   // and without

	// lateBytes is what may still come of an answer that was given up. The origin may
	// not send more than its window.
	lateBytes = streamBuffer + 64<<10
	lateFrame = 64 // what a frame costs at the least
)

// Types and flags of frames (RFC 9113, 6).
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	framePing         = 6
	frameContinuation = 9

	flagEndStream  = 1
	flagAck        = 1
	flagEndHeaders = 4
	flagPadded     = 8

	frameHead     = 9
	prefaceLength = 24
)

const (
	errIdleFrames = malformed("too many HTTP/2 frames that bring nothing")
	errLateFrames = malformed("too much of answers that were given up")
)

// frameWatch looks at the heads of an HTTP/2 connection's frames as they pass, and tells when
// an origin keeps the connection busy with what serves no request: the package that reads
// them goes on for as long as they come.
type frameWatch struct {
	now func() time.Time

	mu      sync.Mutex
	in, out frameHeads
	open    map[uint32]struct{} // streams of which an answer is still to come
	spare   int                 // frames that may still bring nothing
	at      time.Time           // when time last added to that
	late    int64               // bytes that may still come for streams that are not open
	within  bool                // of a header block, more is to come
	block   uint32              // the stream of that block, if its answer was to come
}

func newFrameWatch(now func() time.Time) *frameWatch {
	return &frameWatch{now: now, out: frameHeads{rest: prefaceLength}, open: map[uint32]struct{}{}, spare: mostSpare, at: now()}
}

// read is told what the origin has sent. The error is that there is too much of it.
func (f *frameWatch) read(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		var ok bool
		if b, ok = f.in.next(b); !ok {
			return nil
		}
		if err := f.heard(f.in.kind(), f.in.flags(), f.in.stream(), f.in.rest); err != nil {
			return err
		}
	}
}

// wrote is told what the origin is sent.
func (f *frameWatch) wrote(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		var ok bool
		if b, ok = f.out.next(b); !ok {
			return
		}
		f.said(f.out.kind(), f.out.flags(), f.out.stream(), f.out.rest)
	}
}

func (f *frameWatch) said(kind, flags byte, stream uint32, length int) {
	switch kind {
	case frameHeaders:
		f.open[stream] = struct{}{} // again with its trailers, which come before the answer's end
		f.add(sparePerAsked)
	case frameData:
		f.add(sparePerSent + length*sparePerKiB>>10)
	case frameReset:
		if _, open := f.open[stream]; open {
			delete(f.open, stream)
			f.late += lateBytes
		}
		if stream == f.block {
			f.block = 0
		}
		f.add(1)
	case framePing:
		if flags&flagAck == 0 {
			f.add(1)
		}
	}
}

func (f *frameWatch) heard(kind, flags byte, stream uint32, length int) error {
	_, open := f.open[stream]
	idle := true
	switch kind {
	case frameData:
		// What is short and padded may be nothing but padding.
		idle = length == 0 || flags&flagPadded != 0 && length <= 256
	case frameHeaders:
		f.within, f.block = flags&flagEndHeaders == 0, 0
		if open {
			f.block = stream
		}
	case frameContinuation:
		// The HEADERS before it may have ended the stream.
		f.within, open = flags&flagEndHeaders == 0, stream == f.block
	case frameReset:
		delete(f.open, stream)
	}
	if (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0 {
		delete(f.open, stream)
	}
	if !open && (kind == frameData || kind == frameHeaders || kind == frameContinuation) {
		if f.late -= int64(max(length, lateFrame)); f.late < 0 {
			return errLateFrames
		}
	}
	if !idle {
		return nil
	}
	if f.spare--; f.spare < 0 && !f.waited() {
		return errIdleFrames
	}
	return nil
}

// add raises what is spared.
func (f *frameWatch) add(n int) { f.spare = min(f.spare+n, mostSpare) }

// waited adds what time has, and tells whether that is enough.
func (f *frameWatch) waited() bool {
	now, rate := f.now(), sparePerBusy
	if len(f.open) == 0 {
		rate = sparePerIdle
	}
	more := int(min(now.Sub(f.at), time.Hour).Seconds() * float64(rate))
	if more > 0 {
		f.at = now
		f.add(more)
	}
	return f.spare >= 0
}

// mid tells whether a header block has begun that has not ended.
func (f *frameWatch) mid() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.within
}

// frameHeads finds the heads of frames in what passes in pieces.
type frameHeads struct {
	head [frameHead]byte
	have int // of the head
	rest int // of the payload, still to come
}

// next answers what follows the next whole head, and whether there is one. What is left
// of the payload of the one before is passed over.
func (h *frameHeads) next(b []byte) ([]byte, bool) {
	n := min(h.rest, len(b))
	h.rest -= n
	b = b[n:]
	if h.rest > 0 {
		return nil, false
	}
	n = copy(h.head[h.have:], b)
	h.have += n
	if h.have < frameHead {
		return nil, false
	}
	h.have = 0
	h.rest = int(h.head[0])<<16 | int(h.head[1])<<8 | int(h.head[2])
	return b[n:], true
}

func (h *frameHeads) kind() byte     { return h.head[3] }
func (h *frameHeads) flags() byte    { return h.head[4] }
func (h *frameHeads) stream() uint32 { return binary.BigEndian.Uint32(h.head[5:]) & 0x7fffffff }
