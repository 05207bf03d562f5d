package upstream

import (
	"cmp"
	"errors"
	"net"
)

// byteLimiter is a byteMeter that grants credit before bytes pass. Its methods are called
// concurrently.
//
// Each direction of a connection asks separately, for at most 64 KiB at a time, or 1 MiB
// under a limit that allows large receive buffers. A read asks when bytes have arrived, for
// as many as there are, so a connection that waits for its peer holds no credit. (Where the
// system does not report the number of unread bytes, a read asks first, for at most 4 KiB.)
// Unused credit is refunded, and passed bytes are reported to Read and Wrote: the granted
// minus the refunded credit equals the passed bytes.
//
// A read or write that began before there was a limit, or under another byteMeter, ends as
// it began. It reports what passed without having asked.
type byteLimiter interface {
	byteMeter
	// Credit waits until some of n bytes may pass, and takes 1 to n of them. When done is
	// closed it takes what is available at once, or returns any error, without waiting. Any
	// other error means that the wait was longer than the limit's stall; it ends the
	// connection, and the reader or writer gets it as an *Error of Kind Budget.
	Credit(done <-chan struct{}, n int) (granted int, err error)
	// Refund gives back unused credit.
	Refund(n int)
	// Budgeted tells whether a byte limit applies now. It is called before every read and
	// write; while it returns false, Credit is not called.
	Budgeted() bool
}

const (
	// maxCredit is the credit asked for at once, and maxCreditWide with a receive buffer of
	// that size.
	maxCredit     = 64 << 10
	maxCreditWide = 1 << 20
	// maxCreditBlind is the credit of a read that does not know how many bytes have
	// arrived: it holds this credit while it waits.
	maxCreditBlind = 4 << 10
	// defaultReceiveBuffer is the requested receive buffer of a connection under a byte
	// limit. The peer can fill it without credit. Linux doubles the value.
	defaultReceiveBuffer = 16 << 10
)

// limiter is the byteLimiter that applies now; nil if there is none.
func (c *meteredConn) limiter() byteLimiter {
	m := c.meter.Load()
	if m == nil || m.limiter == nil || !m.limiter.Budgeted() {
		return nil
	}
	if !c.bufferSized.Load() {
		c.sizeReceiveBuffer(m)
	}
	return m.limiter
}

// bufferFor is the requested size in bytes of the receive buffer of a connection under a
// byte limit; 0 leaves it to the system.
func bufferFor(l byteLimiter) int {
	w, ok := l.(Windowed)
	if !ok {
		return defaultReceiveBuffer
	}
	if n := w.Buffer(); int64(n) < maxSystemReceiveBuffer() {
		return n / 2 // Linux doubles it
	}
	return 0
}

// receiveBuffer is bufferFor for a connection that is about to be dialed under m.
func (d *Dialer) receiveBuffer(m byteMeter) int {
	l, ok := m.(byteLimiter)
	switch {
	case !ok, d.ReceiveBuffer < 0, !l.Budgeted():
		return 0
	case d.ReceiveBuffer > 0:
		return d.ReceiveBuffer
	default:
		return bufferFor(l)
	}
}

// sizeReceiveBuffer sets the size of the receive buffer, once, so that the peer learns in
// time that bytes are not read. If the connection was used before, the peer may still fill
// the window announced then, and shrinking the buffer can make the connection slow. Such a
// connection takes no more requests: see bufferSizedLate.
func (c *meteredConn) sizeReceiveBuffer(m *metering) {
	if c.bufferSized.Swap(true) || c.buffer < 0 {
		return
	}
	c.bufferSizedLate.Store(c.usedBefore)
	tc, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return
	}
	size := cmp.Or(c.buffer, bufferFor(m.limiter))
	paid := m.windowed != nil && reportsUnread && !c.usedBefore // no larger window was announced to the peer
	if !paid && c.buffer == 0 && size > 0 {
		size = max(size, defaultReceiveBuffer)
	}
	if size > 0 {
		tc.SetReadBuffer(size)
	}
	if !paid {
		return
	}
	if size == 0 {
		c.startPrepaying(int(maxSystemReceiveBuffer()))
		return
	}
	if size <= defaultReceiveBuffer {
		tc.SetWriteBuffer(size)
	}
	c.startPrepaying(c.arrival.receiveBuffer())
}

// reuse prepares the connection for another request, under m. It returns false if the
// receive buffer is too large for m's limit.
func (c *meteredConn) reuse(m byteMeter) bool {
	c.setMeter(m)
	c.anotherRequest()
	if c.bufferSizedLate.Load() {
		return false
	}
	w := c.windowed()
	return w == nil || c.buffer > 0 || c.roomSize() <= 2*w.Buffer()
}

// creditStep is how much credit is asked for at once.
func (c *meteredConn) creditStep() int {
	return min(max(c.roomSize(), maxCredit), maxCreditWide)
}

// readBudgeted is Read under a byte limit.
func (c *meteredConn) readBudgeted(p []byte) (int, error) {
	n := min(len(p), maxCreditBlind)
	have, known, err := c.arrival.wait()
	if err != nil {
		return 0, err
	}
	l := c.limiter() // it may have changed during the wait
	if known {
		n = min(len(p), have, c.creditStep())
	}
	if n == 0 || l == nil {
		// No bytes: the end of the stream, which needs no credit.
		n, err := c.Conn.Read(p[:min(len(p), maxCreditBlind)])
		c.read(n)
		return n, err
	}
	if n, err = c.creditIn(l, n); err != nil {
		return 0, err
	}
	got, err := c.Conn.Read(p[:n])
	if back := c.consumed(n, max(got, 0)); back > 0 {
		l.Refund(back)
	}
	if got > 0 {
		l.Read(got)
	}
	return got, err
}

// writeBudgeted is Write under a byte limit.
func (c *meteredConn) writeBudgeted(p []byte) (wrote int, err error) {
	for {
		l := c.limiter()
		if l == nil || len(p) == 0 {
			n, err := c.Conn.Write(p)
			c.wrote(n)
			return wrote + n, err
		}
		n, err := c.creditOut(l, min(len(p), c.creditStep()))
		if err != nil {
			return wrote, err
		}
		got, err := c.Conn.Write(p[:n])
		if got < n {
			l.Refund(n - max(got, 0))
		}
		if got > 0 {
			l.Wrote(got)
		}
		wrote += got
		p = p[got:]
		if err != nil || len(p) == 0 {
			return wrote, err
		}
	}
}

// credit asks for n bytes of one direction. Deadlines are paused meanwhile.
func (c *meteredConn) credit(b *pausableDeadline, l byteLimiter, n int) (int, error) {
	done, err := c.pause(b)
	if err != nil {
		return 0, err
	}
	granted, err := l.Credit(done, n)
	released := c.resume(b, done)
	switch {
	case err == nil:
		return granted, nil
	case released != nil:
		return 0, released
	default:
		return 0, &Error{Kind: Budget, Err: err}
	}
}

// budgetErrorOf is the error of a byte limit that paused a connection for too long; nil if
// err is another error.
func budgetErrorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e.Kind == Budget {
		return e
	}
	return nil
}
