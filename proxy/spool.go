package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// spool is a request's body on its way whose length is large or not known. What has passed
// is kept, up to retry.body, so that the body can be sent again: nobody waits for the end of
// the body before it is sent, for it may be half of a conversation. While the body is kept, a
// goroutine of its own reads it, so that an attempt can end without it.
type spool struct {
	source  io.ReadCloser
	grow    func(have int) int // room for more, 0 when there is none
	trailer http.Header        // the client's, with values once the body has ended
	names   []string           // of the trailer: nobody else may look at that before
	length  int64              // announced; -1 or 0: it was not

	mu      sync.Mutex
	more    sync.Cond
	buf     []byte
	free    bool  // nothing more is kept
	dropped bool  // what was kept is only for who reads it now
	ended   error // io.EOF when it came whole
	reading bool
	last    *spoolReader
}

func newSpool(source io.ReadCloser, trailer http.Header, grow func(have int) int) *spool {
	s := &spool{source: source, trailer: trailer, grow: grow}
	for name := range trailer {
		s.names = append(s.names, name)
	}
	s.more.L = &s.mu
	return s
}

// intact tells whether what has come so far was kept, and more can come.
func (s *spool) intact() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.free && (s.ended == nil || s.ended == io.EOF)
}

// pump reads ahead while the request waits for its turn, so that a client that
// leaves is noticed. The error is that of a body that broke.
func (s *spool) pump() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ended == nil {
		if s.reading {
			s.more.Wait()
		} else if s.space() {
			s.read(nil)
		} else {
			return nil
		}
	}
	if s.ended == io.EOF {
		return nil
	}
	return s.ended
}

// space makes room in the buffer; s.mu is held. Without it nothing more is kept.
func (s *spool) space() bool {
	if s.free {
		return false
	}
	if len(s.buf) < cap(s.buf) {
		return true
	}
	step := s.grow(len(s.buf))
	if step == 0 {
		s.free = true
		return false
	}
	s.buf = append(make([]byte, 0, len(s.buf)+step), s.buf...)
	return true
}

// read reads once, into the buffer, or into p if nothing is kept any more; s.mu is
// held, but not meanwhile.
func (s *spool) read(p []byte) int {
	into, kept := p, p == nil
	if kept {
		into = s.buf[len(s.buf):cap(s.buf)]
	}
	s.reading = true
	s.mu.Unlock()
	n, err := s.source.Read(into)
	s.mu.Lock()
	s.reading = false
	s.ended = err
	if kept {
		s.buf = s.buf[:len(s.buf)+n]
	}
	s.more.Broadcast()
	return n
}

// pass is for a body that is about to be sent: one that is longer than may be kept then
// is sent once.
func (s *spool) pass(most int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.length > int64(most) || len(s.buf) > most {
		s.free, s.dropped = true, true
	}
}

// drop lets go of what was kept, as soon as the last reader has passed it.
func (s *spool) drop() {
	s.mu.Lock()
	s.free, s.dropped = true, true
	s.shrink()
	unwanted := s.ended == nil && (s.last == nil || s.last.closed)
	s.mu.Unlock()
	if unwanted {
		s.source.Close()
	}
}

// fill reads once, for whoever waits for it.
func (s *spool) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read(nil)
}

// finish is for the handler's end: nobody reads the source after it.
func (s *spool) finish() {
	s.mu.Lock()
	over := s.ended != nil
	s.mu.Unlock()
	if !over {
		s.source.Close()
	}
}

// shrink is for when that may be so; s.mu is held.
func (s *spool) shrink() {
	if r := s.last; s.dropped && !s.reading && (r == nil || r.closed || r.at >= len(s.buf)) {
		s.buf = nil
		if r != nil {
			r.at = 0
		}
	}
}

// reader gives the body from its beginning, while that is there, and its trailer,
// which is filled at the end.
func (s *spool) reader() (*spoolReader, http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &spoolReader{spool: s}
	if len(s.names) > 0 {
		r.ends = make(http.Header, len(s.names))
		for _, name := range s.names {
			r.ends[name] = nil
		}
	}
	s.last = r
	return r, r.ends
}

// spoolReader is the body for one attempt.
type spoolReader struct {
	*spool
	at     int
	ends   http.Header
	closed bool
}

var errSpoolClosed = errors.New("the body was closed")

func (r *spoolReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.closed:
			return 0, errSpoolClosed
		case r.at < len(r.buf):
			n := copy(p, r.buf[r.at:])
			r.at += n
			r.shrink()
			return n, nil
		case r.ended != nil:
			return 0, r.end()
		case r.reading:
			r.more.Wait()
		case r.space():
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

// end is for who has read all; r.mu is held.
func (r *spoolReader) end() error {
	if r.ended == io.EOF {
		for name := range r.ends {
			r.ends[name] = r.trailer[name]
		}
	}
	return r.ended
}

// Close ends the attempt, and the body with it if that is not kept.
func (r *spoolReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.more.Broadcast()
	unwanted := r.ended == nil && r.free
	r.shrink()
	if !unwanted {
		return nil
	}
	r.mu.Unlock()
	defer r.mu.Lock()
	return r.source.Close()
}
