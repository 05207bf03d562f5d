package chaos

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// piece is what one write brings, or the end of a direction.
type piece struct {
	sent, at time.Time // when it was written, and when it arrives
	data     []byte
	end      bool
}

// stream is one direction of a connection.
type stream struct {
	room     int // bytes that may be written and not yet read
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when something changes
	pieces   []piece
	size     int       // of all pieces
	last     time.Time // when the latest piece arrives
	stalled  time.Time // nothing arrives before
	lost     bool      // nothing arrives any more
	ended    bool      // nothing is written any more
	gone     bool      // the reader has closed its end
	failed   error     // of further reads and writes
	read     time.Time // the deadlines
	write    time.Time
	lastSent time.Time // when the piece was written that was read last
}

// change wakes those who wait. The caller holds mu.
func (s *stream) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits for a change, or for the first of two times that are not zero. The caller holds
// mu, which await releases meanwhile.
func (s *stream) await(a, b time.Time) {
	changed := s.changed
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		a = b
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	if a.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(a))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !deadline.After(time.Now()) }

// stall lets what has not arrived arrive no earlier than a time.
func (s *stream) stall(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = until
	now := time.Now()
	for i := range s.pieces {
		if p := &s.pieces[i]; p.at.After(now) && p.at.Before(until) {
			p.at = until
		}
	}
	s.change()
}

// lose loses what has not arrived, and all that will be written.
func (s *stream) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	now := time.Now()
	for i, p := range s.pieces {
		if p.at.After(now) {
			s.pieces = s.pieces[:i]
			break
		}
	}
	s.change()
}

func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
		s.change()
	}
}

// conn is one end of a connection.
type conn struct {
	net           *network
	in, out       *stream
	local, remote net.Addr
	peer          *conn
	once          sync.Once
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) fails(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

func (c *conn) Read(p []byte) (int, error) {
	s := c.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		var next time.Time
		if s.gone {
			return 0, c.fails("read", net.ErrClosed)
		}
		if passed(s.read) {
			return 0, c.fails("read", os.ErrDeadlineExceeded)
		}
		if len(s.pieces) > 0 {
			first := &s.pieces[0]
			next = first.at
			if !first.at.After(now) {
				if first.end {
					return 0, io.EOF
				}
				s.lastSent = first.sent
				copied := copy(p, first.data)
				first.data = first.data[copied:]
				if s.size -= copied; len(first.data) == 0 {
					s.pieces = s.pieces[1:]
				}
				s.change()
				return copied, nil
			}
		}
		if s.failed != nil {
			return 0, c.fails("read", s.failed)
		}
		if len(p) == 0 {
			return 0, nil
		}
		s.await(next, s.read)
	}
}

func (c *conn) Write(p []byte) (written int, err error) {
	split := len(p)
	if len(p) > 1 && c.net.chance(c.net.pieces) {
		split = 1 + c.net.within(len(p)-1)
	}
	for len(p) > 0 {
		copied, err := c.writeSome(p[:min(split, len(p))])
		written += copied
		if err != nil {
			return written, c.fails("write", err)
		}
		p = p[copied:]
		split = len(p)
	}
	return written, nil
}

// writeSome writes as many bytes as there is room for, at least one.
func (c *conn) writeSome(p []byte) (int, error) {
	latency, s := c.net.latency(), c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended:
			return 0, net.ErrClosed
		case s.failed != nil:
			return 0, s.failed
		case passed(s.write):
			return 0, os.ErrDeadlineExceeded
		case s.gone: // a packet to an end that is closed brings a reset
			time.AfterFunc(2*latency, func() { c.hear(syscall.ECONNRESET) })
			return len(p), nil
		case s.size < s.room:
			now := time.Now()
			data := append([]byte(nil), p[:min(len(p), s.room-s.size)]...)
			s.size += len(data)
			s.append(piece{sent: now, at: now.Add(latency), data: data})
			return len(data), nil
		}
		s.await(s.write, time.Time{})
	}
}

// append adds a piece. The caller holds mu.
func (s *stream) append(p piece) {
	for _, least := range []time.Time{s.last, s.stalled} {
		if p.at.Before(least) {
			p.at = least
		}
	}
	s.last = p.at
	if !s.lost {
		s.pieces = append(s.pieces, p)
	}
	s.change()
}

// CloseWrite ends one direction.
func (c *conn) CloseWrite() error {
	latency := c.net.latency()
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if !c.out.ended {
		c.out.ended = true
		c.out.append(piece{at: time.Now().Add(latency), end: true})
	}
	return nil
}

// Close ends both directions. What was not read resets the connection.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.net.closed(c)
		c.in.mu.Lock()
		unread := false
		for _, p := range c.in.pieces {
			unread = unread || !p.end
		}
		c.in.gone = true
		c.in.change()
		c.in.mu.Unlock()
		if unread {
			c.sendReset()
		}
		c.CloseWrite()
	})
	return nil
}

// sendReset tells the peer that the connection is over.
func (c *conn) sendReset() {
	c.out.mu.Lock()
	lost, at := c.out.lost, time.Now().Add(time.Millisecond)
	for _, least := range []time.Time{c.out.last, c.out.stalled} {
		if at.Before(least) {
			at = least
		}
	}
	c.out.mu.Unlock()
	if !lost {
		time.AfterFunc(time.Until(at), func() { c.peer.hear(syscall.ECONNRESET) })
	}
}

// hear makes reads fail once what has arrived was read, and writes at once.
func (c *conn) hear(err error) {
	c.in.fail(err)
	c.out.fail(err)
}

// reset ends a connection as a firewall does: both ends see a reset.
func (c *conn) reset() {
	c.hear(syscall.ECONNRESET)
	c.peer.hear(syscall.ECONNRESET)
}

// cut loses all that is under way, and all later. Both ends notice after a while.
func (c *conn) cut() {
	c.in.lose()
	c.out.lose()
	time.AfterFunc(vanished, func() {
		c.hear(syscall.ETIMEDOUT)
		c.peer.hear(syscall.ETIMEDOUT)
	})
}

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.read = t
	c.in.change()
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.write = t
	c.out.change()
	return nil
}
