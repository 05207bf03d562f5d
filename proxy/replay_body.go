package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// replayBody is a request's body that can be sent more than once: what has come is kept, as
// far as there is memory. The body is sent while it comes, because it may be half of a
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
	streams bool      // nothing more is kept
	dropped bool      // only the last attempt may read buf
	ended   error     // io.EOF after the last byte, or why the body failed
	reading bool      // a read of source is under way
	last    *replayReader
}

// allowance grants memory. take is by how many bytes a buffer with have bytes may grow, 0 if
// not at all.
type allowance interface{ take(have int) int }

func (b *replayBody) begin(source io.ReadCloser, trailer http.Header, memory allowance) {
	b.source, b.trailer, b.memory = source, trailer, memory
	for name := range trailer {
		b.names = append(b.names, name)
	}
	b.changed.L = &b.mu
}

// intact tells whether everything that has come was kept, and the body has not failed.
func (b *replayBody) intact() bool {
	if b.source == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.streams && (b.ended == nil || b.ended == io.EOF)
}

// whole tells whether the whole body has come and was kept.
func (b *replayBody) whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.streams && b.ended == io.EOF
}

// growing tells whether more may be kept.
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
	into, kept := p, p == nil
	if kept {
		into = b.buf[len(b.buf):cap(b.buf)]
	}
	b.reading = true
	b.mu.Unlock()
	n, err := b.source.Read(into)
	b.mu.Lock()
	b.reading, b.ended = false, err
	if kept {
		b.buf = b.buf[:len(b.buf)+n]
	}
	b.changed.Broadcast()
	return n
}

// fill reads once into the buffer.
func (b *replayBody) fill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read(nil)
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
	r := &replayReader{replayBody: b}
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
	*replayBody
	at     int         // position in buf
	ends   http.Header // the attempt's trailer
	closed bool
}

var errBodyClosed = errors.New("the body was closed")

func (r *replayReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.closed:
			return 0, errBodyClosed
		case r.at < len(r.buf):
			n := copy(p, r.buf[r.at:])
			r.at += n
			r.shrink()
			return n, nil
		case r.ended != nil:
			return 0, r.end()
		case r.reading:
			r.changed.Wait()
		case r.grow():
			r.reading = true
			go r.fill()
		default:
			r.shrink()
			if n := r.read(p); r.ended == nil || n > 0 {
				return n, nil
			}
		}
	}
}

// end fills the trailer and returns how the body ended. r is locked.
func (r *replayReader) end() error {
	if r.ended == io.EOF {
		for name := range r.ends {
			r.ends[name] = r.trailer[name]
		}
	}
	return r.ended
}

// Close ends the attempt. It closes source if the body streams, because no other attempt can
// have the rest.
func (r *replayReader) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.changed.Broadcast()
	unwanted := r.ended == nil && r.streams
	r.shrink()
	r.mu.Unlock()
	if unwanted {
		return r.source.Close()
	}
	return nil
}
