// Package replay has bodies that are kept while they come, so that they can be read more than once, or by
// several readers.
//
//	var b replay.Body
//	b.Begin(source, nil, memory)
//	go b.ReadAhead()
//	first, _ := b.Reader() // from the beginning, as it comes
package replay

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Body is a body that can be read more than once: bytes that have come are
// stored, as far as there is memory. It is read while it comes, because it may be half of a
// conversation. While there is memory, a goroutine of its own reads the source, so that a
// reader can end without waiting for the source. Beyond that the body streams: it is read
// once. The zero value is no body.
type Body struct {
	source  io.ReadCloser
	memory  Allowance
	trailer http.Header // of the message; has values once the body has ended
	names   []string    // of the trailer's fields; trailer itself may not be read before the end

	mu      sync.Mutex
	changed sync.Cond // a read of source has ended, or a reader was closed
	buf     []byte    // the begin of the body
	streams bool      // nothing more is stored
	dropped bool      // only the last reader may read buf
	ended   error     // io.EOF after the last byte, or why the body failed
	reading bool      // a read of source is under way
	ahead   bool      // ReadAhead is: it does all reads of source
	last    *Reader
}

// Allowance grants memory. Take returns the number of bytes by which a buffer with have bytes
// may grow, 0 if not at all.
type Allowance interface{ Take(have int) int }

// Begin begins to keep a body.
func (b *Body) Begin(source io.ReadCloser, trailer http.Header, memory Allowance) {
	b.source, b.trailer, b.memory, b.names = source, trailer, memory, slices.Collect(maps.Keys(trailer))
	b.changed.L = &b.mu
}

// Begun reports whether there is a body.
func (b *Body) Begun() bool { return b.source != nil }

// Intact reports whether all bytes that have come were stored, and the body has not failed.
func (b *Body) Intact() bool {
	return b.Growing() || b.Whole()
}

// Whole reports whether the whole body has come and was stored.
func (b *Body) Whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.streams && b.ended == io.EOF
}

// Growing reports whether more may be stored.
func (b *Body) Growing() bool {
	if b.source == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.streams && b.ended == nil
}

// Ended reports whether the body has ended, or failed.
func (b *Body) Ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended != nil
}

// Head returns what has come so far. No more is stored.
func (b *Body) Head() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams = true
	return b.buf[:len(b.buf):len(b.buf)]
}

// ReadAhead reads until the body ends or there is no more memory. It returns the error of a
// body that failed.
func (b *Body) ReadAhead() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead = true
	defer func() {
		b.ahead = false
		b.changed.Broadcast()
	}()
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
func (b *Body) grow() bool {
	if b.streams || len(b.buf) < cap(b.buf) {
		return !b.streams
	}
	step := b.memory.Take(len(b.buf))
	if step == 0 {
		b.streams = true
		return false
	}
	b.buf = append(make([]byte, 0, len(b.buf)+step), b.buf...)
	return true
}

// read reads once, into p, or into the buffer if p is nil. b is locked, but not during the
// read. A body of which a read panics has failed.
func (b *Body) read(p []byte) (n int) {
	into, stored := p, p == nil
	if stored {
		into = b.buf[len(b.buf):cap(b.buf)]
	}
	err := io.ErrUnexpectedEOF
	b.reading = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.reading, b.ended = false, err
		if stored {
			b.buf = b.buf[:len(b.buf)+n]
		}
		b.changed.Broadcast()
	}()
	n, err = b.source.Read(into)
	return n
}

// Once has a body of which more than so many bytes have come be read once more at most.
func (b *Body) Once(most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if int64(len(b.buf)) > most {
		b.streams, b.dropped = true, true
	}
}

// Drop frees the buffer as soon as the last reader has read it. The source of a body that nobody reads
// is closed.
func (b *Body) Drop() {
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

// Finish is called when source may not be read any more.
func (b *Body) Finish() {
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

// shrink frees the buffer if no reader needs it. b is locked.
func (b *Body) shrink() {
	if r := b.last; b.dropped && !b.reading && (r == nil || r.closed || r.at >= len(b.buf)) {
		b.buf = nil
		if r != nil {
			r.at = 0
		}
	}
}

// Reader returns the body from its beginning, and a trailer that is filled at the body's end.
func (b *Body) Reader() (*Reader, http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Reader{body: b}
	if len(b.names) > 0 {
		r.ends = make(http.Header, len(b.names))
		for _, name := range b.names {
			r.ends[name] = nil
		}
	}
	b.last = r
	return r, r.ends
}

// Reader reads a Body from its beginning. A Read may be under way during Close.
type Reader struct {
	body   *Body
	at     int         // position in buf
	ends   http.Header // its trailer
	closed bool
}

// ErrClosed is the error of a reader that was closed.
var ErrClosed = errors.New("the body was closed")

func (r *Reader) Read(p []byte) (int, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case r.closed:
			return 0, ErrClosed
		case r.at < len(b.buf):
			n := copy(p, b.buf[r.at:])
			r.at += n
			b.shrink()
			return n, nil
		case b.ended != nil:
			return 0, r.end()
		case b.reading || b.ahead:
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
func (r *Reader) end() error {
	if r.body.ended == io.EOF {
		for name := range r.ends {
			r.ends[name] = r.body.trailer[name]
		}
	}
	return r.body.ended
}

// Close ends the reader. It closes source if the body streams, because no other reader can
// have the rest.
func (r *Reader) Close() error {
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
