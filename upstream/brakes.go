package upstream

import (
	"net"
	"os"
	"sync"
	"time"
)

// brakes hold a connection still while there is no credit for it. Its deadlines
// are for the peer, so they are put off by as long as that takes.
type brakes struct {
	mu      sync.Mutex
	in, out brake
	leaving bool // nothing waits any more

	pauses int           // going on, of both directions
	since  time.Time     // when the first of those began
	still  time.Duration // how long there were any before
}

// brake is one direction's.
type brake struct {
	by     time.Time     // its deadline
	done   chan struct{} // closed when the deadline was moved into the past, or all is over; nil until somebody waits
	closed bool          // done is
	pauses int
	since  time.Time // since when by is to be put off
}

// pause begins a wait for credit, which done ends.
func (c *meteredConn) pause(b *brake) (done <-chan struct{}, err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.pauses == 0 && !c.leaving && past(b.by, now) {
		return nil, os.ErrDeadlineExceeded
	}
	if b.done == nil {
		b.done = make(chan struct{})
		if b.closed = c.leaving; b.closed {
			close(b.done)
		}
	}
	if b.pauses++; b.pauses == 1 {
		b.since = now
	}
	if c.pauses++; c.pauses == 1 {
		c.since = now
	}
	return b.done, nil
}

// resume ends it, and says why it was to end early, if it was.
func (c *meteredConn) resume(b *brake, done <-chan struct{}) error {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses == 0 {
		c.still += now.Sub(c.since)
	}
	b.pauses--
	released := b.closed || b.done != done
	if b.pauses == 0 && !b.closed && !b.by.IsZero() {
		if took := now.Sub(b.since); took >= time.Millisecond {
			b.by = b.by.Add(took)
			c.apply(b)
		}
	}
	switch {
	case c.leaving:
		return net.ErrClosed
	case released:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// apply hands a deadline on. The lock is held, so that the last word stays the
// last one.
func (c *meteredConn) apply(b *brake) error {
	if b == &c.in {
		return c.Conn.SetReadDeadline(b.by)
	}
	return c.Conn.SetWriteDeadline(b.by)
}

// setDeadline is for one direction. One in the past ends a pause.
func (c *meteredConn) setDeadline(b *brake, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.by = t
	if b.done != nil && !c.leaving {
		now := time.Now()
		b.since = now
		switch is := past(t, now); {
		case is && !b.closed:
			b.closed = true
			close(b.done)
		case !is && b.closed:
			b.closed = false
			b.done = make(chan struct{})
		}
	}
	return c.apply(b)
}

func past(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// SetDeadline implements net.Conn, as do the next two.
func (c *meteredConn) SetDeadline(t time.Time) error {
	err := c.setDeadline(&c.in, t)
	if other := c.setDeadline(&c.out, t); err == nil {
		err = other
	}
	return err
}

func (c *meteredConn) SetReadDeadline(t time.Time) error  { return c.setDeadline(&c.in, t) }
func (c *meteredConn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.out, t) }

// hasten ends all pauses, now and later: the connection is about to be closed,
// and what is still said on it is said with the credit that is at hand.
func (c *meteredConn) hasten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = true
	for _, b := range [...]*brake{&c.in, &c.out} {
		if b.done != nil && !b.closed {
			b.closed = true
			close(b.done)
		}
	}
}

// Close ends pauses too.
func (c *meteredConn) Close() error {
	c.hasten()
	c.forgo()
	c.endReceiving()
	if lent := c.stretch.Swap(unstretched); lent != unstretched {
		lent.end()
	}
	return c.Conn.Close()
}

// paused is for how long the connection has been held still, and whether it is
// now. A connection that is none of ours never is.
func (c *meteredConn) paused() (sum time.Duration, now bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses == 0 {
		return c.still, false
	}
	return c.still + time.Since(c.since), true
}

// gauge is the connection that was dialed, whatever is around it; nil if none was.
func gauge(nc net.Conn) *meteredConn {
	for nc != nil {
		switch c := nc.(type) {
		case *meteredConn:
			return c
		case *earlyConn:
			nc = c.Conn
			continue
		}
		inner, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = inner.NetConn()
	}
	return nil
}

// closeAtOnce closes nc, with a goodbye only if that need not wait for credit.
func closeAtOnce(nc net.Conn) error {
	if c := gauge(nc); c != nil {
		c.hasten()
	}
	return nc.Close()
}
