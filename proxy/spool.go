package proxy

import (
	"errors"
	"io"
	"sync"
)

// spool is a request's body of unknown length on its way. What has passed is kept,
// up to retry.body, so that it can be sent again once it has come whole: nobody
// waits for that before it is sent, for it may be half of a conversation. Whoever
// wants more than there is reads on, or waits for who does.
type spool struct {
	source io.ReadCloser
	grow   func(have int) int // room for more, 0 when there is none
	rest   func()             // nobody reads for a while

	mu      sync.Mutex
	more    sync.Cond
	buf     []byte
	free    bool  // nothing more is kept
	ended   error // io.EOF when it came whole
	reading bool
}

func newSpool(source io.ReadCloser, grow func(have int) int, rest func()) *spool {
	s := &spool{source: source, grow: grow, rest: rest}
	s.more.L = &s.mu
	return s
}

// whole is the body when all of it has come and was kept.
func (s *spool) whole() ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf, s.ended == io.EOF && !s.free
}

// pump reads ahead while the request waits for its turn, so that a client that
// leaves is noticed.
func (s *spool) pump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading {
		return
	}
	for s.ended == nil && s.space() {
		s.read(nil)
	}
	if s.ended == nil {
		s.rest() // it is not the client who is slow now
	}
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
	into := p
	if !s.free {
		into = s.buf[len(s.buf):cap(s.buf)]
	}
	s.reading = true
	s.mu.Unlock()
	n, err := s.source.Read(into)
	s.mu.Lock()
	s.reading = false
	s.ended = err
	if !s.free {
		s.buf = s.buf[:len(s.buf)+n]
	}
	s.more.Broadcast()
	return n
}

// reader gives the body from its beginning, while that is there.
func (s *spool) reader() *spoolReader { return &spoolReader{spool: s} }

// spoolReader is the body for one attempt.
type spoolReader struct {
	*spool
	at     int
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
			return n, nil
		case r.ended != nil:
			return 0, r.ended
		case r.reading:
			r.more.Wait()
		case r.space():
			r.read(nil)
		default:
			return r.read(p), r.ended
		}
	}
}

// Close ends the attempt, and the body with it unless that has come whole.
func (r *spoolReader) Close() error {
	r.mu.Lock()
	r.closed = true
	ended := r.ended == io.EOF
	r.more.Broadcast()
	r.mu.Unlock()
	if ended {
		return nil
	}
	return r.source.Close()
}
