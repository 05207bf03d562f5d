package upstream

import (
	"net"
	"os"
	"sync"
	"time"
)

// pausableDeadlines are the read and write deadlines of a metered connection. While the
// connection waits for byte credit, its deadlines are postponed by the time of the wait,
// since the peer is not to blame for it. Safe for concurrent use.
type pausableDeadlines struct {
	conn    net.Conn // the connection that the deadlines are set on
	mu      sync.Mutex
	in, out pausableDeadline
	closing bool // waits for credit end at once

	pauses       int           // waits that are going on, in both directions
	since        time.Time     // when the first of these waits began
	pausedBefore time.Duration // total length of the waits before
}

// pausableDeadline is the deadline of one direction. pausableDeadlines.mu guards it.
type pausableDeadline struct {
	by     time.Time     // the deadline
	done   chan struct{} // closed when a deadline in the past was set or the connection is closing; nil without a wait
	closed bool          // done is closed
	pauses int
	since  time.Time // start of the time by which the deadline is to be postponed
}

// pause begins a wait for credit. The wait must end when done is closed.
func (d *pausableDeadlines) pause(b *pausableDeadline) (done <-chan struct{}, err error) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.pauses == 0 && !d.closing && past(b.by, now) {
		return nil, os.ErrDeadlineExceeded
	}
	if b.done == nil {
		b.done = make(chan struct{})
		if b.closed = d.closing; b.closed {
			close(b.done)
		}
	}
	if b.pauses++; b.pauses == 1 {
		b.since = now
	}
	if d.pauses++; d.pauses == 1 {
		d.since = now
	}
	return b.done, nil
}

// resume ends a wait for credit. It returns an error if the wait was ended early by a
// deadline or by closing.
func (d *pausableDeadlines) resume(b *pausableDeadline, done <-chan struct{}) error {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pauses--; d.pauses == 0 {
		d.pausedBefore += now.Sub(d.since)
	}
	b.pauses--
	released := b.closed || b.done != done
	if b.pauses == 0 && !b.closed && !b.by.IsZero() {
		if took := now.Sub(b.since); took >= time.Millisecond {
			b.by = b.by.Add(took)
			d.apply(b)
		}
	}
	switch {
	case d.closing:
		return net.ErrClosed
	case released:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// apply sets the deadline on the connection. The caller holds the lock, so that the latest
// deadline is set last.
func (d *pausableDeadlines) apply(b *pausableDeadline) error {
	if b == &d.in {
		return d.conn.SetReadDeadline(b.by)
	}
	return d.conn.SetWriteDeadline(b.by)
}

// setDeadline sets the deadline of one direction. A deadline in the past ends a pause.
func (d *pausableDeadlines) setDeadline(b *pausableDeadline, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b.by = t
	if b.done != nil && !d.closing {
		now := time.Now()
		b.since = now
		switch ok := past(t, now); {
		case ok && !b.closed:
			b.closed = true
			close(b.done)
		case !ok && b.closed:
			b.closed = false
			b.done = make(chan struct{})
		}
	}
	return d.apply(b)
}

func past(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// SetDeadline implements net.Conn, as do SetReadDeadline and SetWriteDeadline.
func (c *meteredConn) SetDeadline(t time.Time) error {
	err := c.setDeadline(&c.in, t)
	if other := c.setDeadline(&c.out, t); err == nil {
		err = other
	}
	return err
}

func (c *meteredConn) SetReadDeadline(t time.Time) error  { return c.setDeadline(&c.in, t) }
func (c *meteredConn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.out, t) }

// endPauses ends current and future waits for credit, because the connection is about to be
// closed. Closing messages are sent only with credit that is available at once.
func (d *pausableDeadlines) endPauses() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	for _, b := range [...]*pausableDeadline{&d.in, &d.out} {
		if b.done != nil && !b.closed {
			b.closed = true
			close(b.done)
		}
	}
}

// Close also ends waits for credit.
func (c *meteredConn) Close() error {
	c.endPauses()
	c.endReceiving()
	return c.Conn.Close()
}

// paused returns how long the connection has waited for credit in all, and whether it waits
// now. A nil connection has never waited.
func (c *meteredConn) paused() (sum time.Duration, pausedNow bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses == 0 {
		return c.pausedBefore, false
	}
	return c.pausedBefore + time.Since(c.since), true
}

// meteredConnOf unwraps a connection to its metered connection; nil if there is none.
func meteredConnOf(nc net.Conn) *meteredConn {
	for nc != nil {
		switch c := nc.(type) {
		case *meteredConn:
			return c
		case *bufferedConn:
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

// closeAtOnce closes nc. It sends TLS close_notify only if that needs no wait for credit.
func closeAtOnce(nc net.Conn) error {
	if c := meteredConnOf(nc); c != nil {
		c.endPauses()
	}
	return nc.Close()
}
