package proxy

import (
	"net"
	"sync/atomic"
	"time"
)

// writeDeadline gives a client timeouts.stall to receive what is written to it. The
// deadline is moved only when a quarter of stall has passed, because moving the deadline
// costs more than reading the clock.
type writeDeadline struct {
	stall time.Duration
	moved atomic.Int64 // sinceStart when extend last moved the deadline; 0: another deadline is set
}

// extend is called before each write to conn.
func (d *writeDeadline) extend(conn net.Conn) {
	now := int64(sinceStart())
	if last := d.moved.Load(); last == 0 || now-last > int64(d.stall)/4 {
		d.moved.Store(now)
		conn.SetWriteDeadline(time.Now().Add(d.stall))
	}
}

// set sets a deadline of a caller, such as net/http when it closes the connection. The next
// write may move it. net/http also removes the deadline after each response: a deadline that
// extend has set then stays, because it has no effect while nothing is written.
func (d *writeDeadline) set(conn net.Conn, t time.Time) error {
	if t.IsZero() && d.moved.Load() != 0 {
		return nil
	}
	return d.replace(conn, t)
}

// replace sets a deadline, also in the place of one that extend has set.
func (d *writeDeadline) replace(conn net.Conn, t time.Time) error {
	d.moved.Store(0)
	return conn.SetWriteDeadline(t)
}
