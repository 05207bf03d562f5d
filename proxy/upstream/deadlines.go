package upstream

import (
	"context"
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
	heldUp time.Time // of ByteLimiter.Credit; used by the one that reads or writes, without the lock
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
		if d.closing {
			b.end()
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
		case ok:
			b.end()
		case b.closed:
			b.closed = false
			b.done = make(chan struct{})
		}
	}
	return d.apply(b)
}

func past(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// endPauses ends current and future waits for credit, because the connection is about to be
// closed. Closing messages are sent only with credit that is available at once.
func (d *pausableDeadlines) endPauses() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	for _, b := range [...]*pausableDeadline{&d.in, &d.out} {
		b.end()
	}
}

// end ends the waits of a direction.
func (b *pausableDeadline) end() {
	if b.done != nil && !b.closed {
		b.closed = true
		close(b.done)
	}
}

// pausableTimer calls onExpire after a time in which the peer could have acted. While a
// byte limit pauses the connection, the timer is paused, too. Safe for concurrent use.
type pausableTimer struct {
	conn     *meteredConn // nil: never paused
	onExpire func()

	mu       sync.Mutex
	timer    *time.Timer
	duration time.Duration
	due      time.Time // if conn had never been paused; zero: not running
}

// start restarts the timer.
func (p *pausableTimer) start(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	paused, _ := p.conn.paused()
	p.duration, p.due = d, time.Now().Add(d-paused)
	if p.timer == nil {
		p.timer = time.AfterFunc(d, func() {
			if p.expired() {
				p.onExpire()
			}
		})
	} else {
		p.timer.Reset(d)
	}
}

func (p *pausableTimer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
	if p.timer != nil {
		p.timer.Stop()
	}
}

// expired is called when the timer fires. That may be late, after a stop or another start.
func (p *pausableTimer) expired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.IsZero() {
		return false
	}
	paused, pausedNow := p.conn.paused()
	left := time.Until(p.due.Add(paused))
	if pausedNow {
		// The end of the pause is not known; checking more often would waste time.
		left = max(left, p.duration/16, time.Millisecond)
	}
	if left > 0 {
		p.timer.Reset(left)
		return false
	}
	p.due = time.Time{}
	return true
}

// withPausableTimeout is a context that ends after d, not counting pauses of conn.
func withPausableTimeout(ctx context.Context, conn *meteredConn, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pausableTimer{conn: conn, onExpire: func() { cancel(context.DeadlineExceeded) }}
	p.start(d)
	return ctx, func() {
		p.stop()
		cancel(nil)
	}
}
