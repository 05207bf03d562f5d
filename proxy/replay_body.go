package proxy

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// replayStep is the least memory in bytes that a body takes at a time. Memory is taken for
// bytes that have come and not for a length that was announced.
const replayStep = 16 << 10

// maxReadAhead bounds the bytes read of a body that is too large to be stored, while its
// request waits: the end of a client that has left comes after what the client has sent.
// Half of retry.memory is not available for that.
const maxReadAhead = 8 << 20

// replayBody is a request's body that can be sent more than once: bytes that have come are
// stored, as far as there is memory. The body is sent while it comes, because it may be half of a
// conversation. While there is memory, a goroutine of its own reads the body, so that an
// attempt can end without waiting for the body. Beyond that the body streams: it is sent
// once. The zero value is no body.
type replayBody struct {
	source  io.ReadCloser
	memory  allowance
	trailer http.Header // of the client's request; has values once the body has ended
	names   []string    // of the trailer's fields; trailer itself may not be read before the end

	mu      sync.Mutex
	changed sync.Cond // a read of source has ended, or an attempt was closed
	buf     []byte    // the begin of the body
	streams bool      // nothing more is stored
	dropped bool      // only the last attempt may read buf
	ended   error     // io.EOF after the last byte, or why the body failed
	reading bool      // a read of source is under way
	last    *replayReader
}

// allowance grants memory. take returns the number of bytes by which a buffer with have bytes
// may grow, 0 if not at all.
type allowance interface{ take(have int) int }

func (b *replayBody) begin(source io.ReadCloser, trailer http.Header, memory allowance) {
	b.source, b.trailer, b.memory, b.names = source, trailer, memory, slices.Collect(maps.Keys(trailer))
	b.changed.L = &b.mu
}

// intact reports whether all bytes that have come were stored, and the body has not failed.
func (b *replayBody) intact() bool {
	return b.growing() || b.whole()
}

// whole reports whether the whole body has come and was stored.
func (b *replayBody) whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.streams && b.ended == io.EOF
}

// growing reports whether more may be stored.
func (b *replayBody) growing() bool {
	if b.source == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.streams && b.ended == nil
}

// readAhead reads until the body ends or there is no more memory. It returns the error of a
// body that failed.
func (b *replayBody) readAhead() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.ended == nil {
		if b.reading {
			b.changed.Wait()
		} else if b.grow() {
			b.read(nil)
		} else {
			return nil
		}
	}
	if b.ended == io.EOF {
		return nil
	}
	return b.ended
}

// grow makes space in the buffer. Without memory for that, the rest streams. b is locked.
func (b *replayBody) grow() bool {
	if b.streams || len(b.buf) < cap(b.buf) {
		return !b.streams
	}
	step := b.memory.take(len(b.buf))
	if step == 0 {
		b.streams = true
		return false
	}
	b.buf = append(make([]byte, 0, len(b.buf)+step), b.buf...)
	return true
}

// read reads once, into p, or into the buffer if p is nil. b is locked, but not during the
// read.
func (b *replayBody) read(p []byte) int {
	into, stored := p, p == nil
	if stored {
		into = b.buf[len(b.buf):cap(b.buf)]
	}
	b.reading = true
	b.mu.Unlock()
	n, err := b.source.Read(into)
	b.mu.Lock()
	b.reading, b.ended = false, err
	if stored {
		b.buf = b.buf[:len(b.buf)+n]
	}
	b.changed.Broadcast()
	return n
}

// beforeSend is called when the body is about to be sent. A body that is longer than most, by
// its announced length or by what has come, is sent once.
func (b *replayBody) beforeSend(announced, most int64) {
	if b.source == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if announced > most || int64(len(b.buf)) > most {
		b.streams, b.dropped = true, true
	}
}

// drop frees the buffer as soon as the last attempt has read it. A body that no attempt reads
// is closed.
func (b *replayBody) drop() {
	if b.source == nil {
		return
	}
	b.mu.Lock()
	b.streams, b.dropped = true, true
	b.shrink()
	unwanted := b.ended == nil && (b.last == nil || b.last.closed)
	b.mu.Unlock()
	if unwanted {
		b.source.Close()
	}
}

// finish is called when the handler returns, after which source may not be read.
func (b *replayBody) finish() {
	if b.source == nil {
		return
	}
	b.mu.Lock()
	over := b.ended != nil
	b.mu.Unlock()
	if !over {
		b.source.Close()
	}
}

// shrink frees the buffer if no attempt needs it. b is locked.
func (b *replayBody) shrink() {
	if r := b.last; b.dropped && !b.reading && (r == nil || r.closed || r.at >= len(b.buf)) {
		b.buf = nil
		if r != nil {
			r.at = 0
		}
	}
}

// reader is the body for a new attempt, and a trailer that is filled at the body's end.
func (b *replayBody) reader() (*replayReader, http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &replayReader{body: b}
	if len(b.names) > 0 {
		r.ends = make(http.Header, len(b.names))
		for _, name := range b.names {
			r.ends[name] = nil
		}
	}
	b.last = r
	return r, r.ends
}

// replayReader is the body of one attempt. A Read may be under way during Close.
type replayReader struct {
	body   *replayBody
	at     int         // position in buf
	ends   http.Header // the attempt's trailer
	closed bool
}

var errBodyClosed = errors.New("the body was closed")

func (r *replayReader) Read(p []byte) (int, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case r.closed:
			return 0, errBodyClosed
		case r.at < len(b.buf):
			n := copy(p, b.buf[r.at:])
			r.at += n
			b.shrink()
			return n, nil
		case b.ended != nil:
			return 0, r.end()
		case b.reading:
			b.changed.Wait()
		case b.grow():
			b.reading = true
			go func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.read(nil)
			}()
		default:
			b.shrink()
			if n := b.read(p); b.ended == nil || n > 0 {
				return n, nil
			}
		}
	}
}

// end fills the trailer and returns the end of the body as an error. r.body is locked.
func (r *replayReader) end() error {
	if r.body.ended == io.EOF {
		for name := range r.ends {
			r.ends[name] = r.body.trailer[name]
		}
	}
	return r.body.ended
}

// Close ends the attempt. It closes source if the body streams, because no other attempt can
// have the rest.
func (r *replayReader) Close() error {
	b := r.body
	b.mu.Lock()
	if r.closed {
		b.mu.Unlock()
		return nil
	}
	r.closed = true
	b.changed.Broadcast()
	unwanted := b.ended == nil && b.streams
	b.shrink()
	b.mu.Unlock()
	if unwanted {
		return b.source.Close()
	}
	return nil
}

// replayMemory is the part of retry.memory that one request's body takes.
type replayMemory struct {
	total     *atomic.Int64 // bytes that all requests take
	maxBody   int64         // retry.body
	maxTotal  int64         // retry.memory
	announced int64         // length of the body; negative: unknown
	taken     atomic.Int64  // bytes that this request takes
	ahead     atomic.Bool   // the request waits, and its body is read ahead
	released  atomic.Bool   // nothing more may be taken
}

// take returns the number of bytes by which a buffer with have bytes may grow, 0 if not at
// all. There is one byte more than announced or allowed, for EOF itself: net/http looks at the client only
// after EOF. Only one goroutine may call take at a time.
func (m *replayMemory) take(have int) int {
	most, memory := m.maxBody+1, m.maxTotal
	switch ahead := m.ahead.Load(); {
	case ahead && (int64(have) >= most || m.announced >= most):
		most, memory = max(most, maxReadAhead+1), memory/2
	case m.announced >= most:
		most = 0 // nothing is stored of a body that is too large
	}
	if m.announced >= 0 {
		most = min(most, m.announced+1)
	}
	step := min(max(replayStep, have), int(most)-have)
	if step <= 0 || m.total.Add(int64(step)) > memory {
		m.total.Add(-int64(max(step, 0)))
		return 0
	}
	m.taken.Add(int64(step))
	if m.released.Load() { // by the end of the handler, meanwhile
		m.total.Add(-m.taken.Swap(0))
		return 0
	}
	return step
}

// release gives the memory back. Nothing more is taken.
func (m *replayMemory) release() {
	m.released.Store(true)
	m.total.Add(-m.taken.Swap(0))
}
