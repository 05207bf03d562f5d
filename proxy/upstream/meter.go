package upstream

import (
	"context"
	"errors"
	"iter"
	"net"
	"sync/atomic"
	"time"
)

// ByteLimiter is a byteMeter that grants credit before bytes pass. Its methods are called
// concurrently.
//
// A new connection takes the size of its receive buffer of the limit's bytes and holds them: what
// the peer may have sent before anybody reads it. Each read then pays for the bytes that may
// arrive in its place.
//
// Each direction of a connection asks separately, for at most 64 KiB at a time. A read asks when bytes have arrived, for
// as many as there are, so a connection that waits for its peer holds no credit. (Where the
// system does not report the number of unread bytes, a read asks first, for at most 4 KiB.)
// Unused credit is refunded, and passed bytes are reported to Read and Wrote: the granted
// minus the refunded credit equals the passed bytes.
//
// A read or write that began before there was a limit, or under another byteMeter, ends as
// it began. It reports what passed without having asked.
type ByteLimiter interface {
	byteMeter
	// Credit waits until some of n bytes may pass, and takes 1 to n of them. When done is
	// closed it takes what is available at once, or returns any error, without waiting. Any
	// other error means that the wait was longer than the limit's stall; it ends the
	// connection, and the reader or writer gets it as an *Error of Kind Budget. since is kept
	// for the limiter from one call for a direction to the next, zero at first: when the limits
	// began to hold that direction up. arrived, nil
	// for a connection that holds no bytes, is called while it waits, and returns how many of
	// those held have arrived and how many cannot arrive meanwhile.
	Credit(done <-chan struct{}, since *time.Time, n int, arrived func() (unread, spare int64)) (granted int, err error)
	// Refund gives back unused credit.
	Refund(n int)
	// Budgeted tells whether a byte limit applies now. It is called before every read and
	// write; while it returns false, Credit is not called.
	Budgeted() bool
	// Open is Credit for a connection's first write. It takes size more, which the connection
	// holds from now on, or less if the limits never grant that many.
	Open(done <-chan struct{}, since *time.Time, size, n int) (granted, held int, err error)
	// Release ends the hold of bytes, of which some go back.
	Release(held, back int)
	// Crowded tells whether other connections wait because of what is held.
	Crowded() bool
	// Buffer is the size in bytes of a connection's receive buffer. It is called when a
	// connection is dialed.
	Buffer() int
	// CountedOnly tells whether there is enough for all that may pass. Then reads and writes
	// do not ask for credit, but call Pay. It is called before every read and write.
	CountedOnly() bool
	// Pay takes credit for n bytes that have passed without having asked.
	Pay(n int)
}

const (
	// maxCredit is the credit asked for at once.
	maxCredit = 64 << 10
	// maxCreditBlind is the credit of a read that does not know how many bytes have
	// arrived: it holds this credit while it waits.
	maxCreditBlind = 4 << 10
	// defaultReceiveBuffer is the requested receive buffer of a connection under a byte
	// limit. The peer can fill it without credit. Linux doubles the value.
	defaultReceiveBuffer = 16 << 10
)

// byteMeter counts the bytes that pass on a connection to a site, TLS and headers included.
// Both methods are called concurrently and for every read and write, so they must be cheap.
// A byteMeter is compared with ==, so its type must be comparable, such as a pointer.
type byteMeter interface {
	Read(n int)  // n bytes were received from the site
	Wrote(n int) // n bytes were sent to the site
}

// sender sends a request.
type sender interface {
	Sending()                                // a request that had to wait for a new connection is about to be written
	Stall(usual time.Duration) time.Duration // how long the answer's body may be silent, 0 for any time
}

// SenderKey is the context key of a sender.
type SenderKey struct{}

// stallTimeout returns the longest silence of the body of an answer, 0 for any.
func (t *Transport) stallTimeout(ctx context.Context) time.Duration {
	if p, ok := ctx.Value(SenderKey{}).(sender); ok {
		return p.Stall(t.StallTimeout)
	}
	return t.StallTimeout
}

// MeterKey is the context key of a byteMeter, which counts the bytes of the connections that are dialed
// or used under the context.
type MeterKey struct{}

// meterFrom is the byteMeter of ctx; nil if there is none.
func meterFrom(ctx context.Context) byteMeter {
	m, _ := ctx.Value(MeterKey{}).(byteMeter)
	return m
}

// meteredConn counts the bytes that pass. Every dialed connection is wrapped, even without
// a meter, because a pooled connection may get a meter later. Safe for concurrent use, as
// net.Conn is.
//
// It embeds the interface and not the *net.TCPConn, so that it has neither ReadFrom nor
// WriteTo: these would pass bytes uncounted. Relay gets the TCP connection by NetConn and
// counts by itself.
type meteredConn struct {
	net.Conn
	meter atomic.Pointer[metering]

	// Used with a ByteLimiter:
	deadlines       pausableDeadlines
	socket          socket
	usedBefore      bool        // bytes may have passed before the limit was set
	bufferSized     atomic.Bool // the receive buffer has the size that the byte limit requires
	bufferSizedLate atomic.Bool // it got that size after bytes had passed

	room atomic.Int64         // size in bytes of the receive buffer, which is held; 0: nothing is held
	hold atomic.Pointer[hold] // nil: nothing is held now
	use  use                  // guarded by deadlines.mu

	looks atomic.Pointer[pausableDeadline] // the waiting direction that looks at what has arrived
}

// metering is a connection's byteMeter, and the same as a ByteLimiter if it is one.
type metering struct {
	byteMeter
	limiter ByteLimiter // nil: bytes are only counted
}

// newMeteredConn wraps a connection whose bytes m counts. Bytes may have passed before.
func newMeteredConn(nc net.Conn, m byteMeter) *meteredConn {
	c := &meteredConn{Conn: nc, socket: newSocket(nc)}
	c.deadlines.conn = nc
	c.setMeter(m)
	c.usedBefore = true
	return c
}

// setMeter makes m count all following bytes; nil counts none.
func (c *meteredConn) setMeter(m byteMeter) {
	old := c.meter.Load()
	switch {
	case m == nil:
		c.meter.Store(nil)
	case old == nil || old.byteMeter != m:
		limiter, _ := m.(ByteLimiter)
		c.meter.Store(&metering{m, limiter})
		c.limiter() // sizes the receive buffer
	}
}

func (c *meteredConn) Read(p []byte) (int, error) {
	if c.asksFirst() != nil && len(p) > 0 {
		return c.readBudgeted(p)
	}
	n, err := c.Conn.Read(p)
	c.readUnasked(n)
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	if c.asksFirst() != nil {
		return c.writeBudgeted(p)
	}
	n, err := c.Conn.Write(p)
	c.wroteUnasked(n)
	return n, err
}

// limiter is the ByteLimiter that applies now; nil if there is none.
func (c *meteredConn) limiter() ByteLimiter {
	m := c.meter.Load()
	if m == nil || m.limiter == nil || !m.limiter.Budgeted() {
		return nil
	}
	if !c.bufferSized.Load() {
		c.sizeReceiveBuffer(m)
	}
	return m.limiter
}

// asksFirst is the ByteLimiter that has to be asked before bytes pass; nil if there is none.
func (c *meteredConn) asksFirst() ByteLimiter {
	l := c.limiter()
	if l != nil && (c.room.Load() == 0 || c.holds(l)) && l.CountedOnly() {
		return nil
	}
	return l
}

// readBudgeted is Read under a byte limit.
func (c *meteredConn) readBudgeted(p []byte) (int, error) {
	n := min(len(p), maxCreditBlind)
	have, known, err := c.socket.wait()
	if err != nil {
		return 0, err
	}
	l := c.asksFirst() // it may have changed during the wait
	if known {
		n = min(len(p), have, maxCredit)
	}
	if n == 0 || l == nil {
		// No bytes: the end of the stream, which needs no credit.
		n, err := c.Conn.Read(p[:min(len(p), maxCreditBlind)])
		c.readUnasked(n)
		return n, err
	}
	if n, err = c.creditHeld(l, &c.deadlines.in, n); err != nil {
		return 0, err
	}
	if !c.startRead() {
		l.Refund(n)
		return 0, net.ErrClosed
	}
	got, err := c.Conn.Read(p[:n])
	c.endRead()
	if back := n - max(got, 0); back > 0 {
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
		l := c.asksFirst()
		if l == nil || len(p) == 0 {
			n, err := c.Conn.Write(p)
			c.wroteUnasked(n)
			return wrote + n, err
		}
		n, err := c.creditOut(l, min(len(p), maxCredit))
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

// credit asks for bytes of one direction. Deadlines are paused meanwhile.
func (c *meteredConn) credit(b *pausableDeadline, ask func(done <-chan struct{}) (int, error)) (int, error) {
	done, err := c.deadlines.pause(b)
	if err != nil {
		return 0, err
	}
	granted, err := ask(done)
	released := c.deadlines.resume(b, done)
	switch {
	case err == nil:
		return granted, nil
	case released != nil:
		return 0, released
	default:
		return 0, &Error{Kind: Budget, Err: err}
	}
}

func (c *meteredConn) read(n int) {
	if m := c.meter.Load(); m != nil && n > 0 {
		m.Read(n)
	}
}

// bufferFor is the requested size in bytes of the receive buffer of a connection under a
// byte limit; 0 leaves it to the system.
func bufferFor(l ByteLimiter) int {
	if n := l.Buffer(); int64(n) < maxSystemReceiveBuffer() {
		return n / 2 // Linux doubles it
	}
	return 0
}

// sizeReceiveBuffer sets the size of the receive buffer, once, so that the peer learns in
// time that bytes are not read. If the connection was used before, the peer may still fill
// the window announced then, and shrinking the buffer can make the connection slow. Such a
// connection takes no more requests: see bufferSizedLate.
func (c *meteredConn) sizeReceiveBuffer(m *metering) {
	if c.bufferSized.Swap(true) {
		return
	}
	c.bufferSizedLate.Store(c.usedBefore)
	tc, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return
	}
	size := bufferFor(m.limiter)
	paid := reportsUnread && !c.usedBefore // no larger window was announced to the peer
	if !paid && size > 0 {
		size = max(size, defaultReceiveBuffer)
	}
	if size > 0 {
		tc.SetReadBuffer(size)
	}
	if !paid {
		return
	}
	if size == 0 {
		c.room.Store(maxSystemReceiveBuffer())
		return
	}
	if size <= defaultReceiveBuffer {
		tc.SetWriteBuffer(size)
	}
	c.room.Store(int64(c.socket.receiveBuffer()))
}

// reuse prepares the connection for another request, under m. It returns false if the
// receive buffer is too large for m's limit.
func (c *meteredConn) reuse(m byteMeter) bool {
	c.setMeter(m)
	c.startRequest()
	if c.bufferSizedLate.Load() {
		return false
	}
	w := c.holding()
	return w == nil || c.room.Load() <= 2*int64(w.Buffer())
}

// budgetErrorOf is the error of a byte limit that paused a connection for too long; nil if
// err is another error.
func budgetErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == Budget {
		return e
	}
	return nil
}

// SetDeadline implements net.Conn, as do SetReadDeadline and SetWriteDeadline.
func (c *meteredConn) SetDeadline(t time.Time) error {
	err := c.deadlines.setDeadline(&c.deadlines.in, t)
	if other := c.deadlines.setDeadline(&c.deadlines.out, t); err == nil {
		err = other
	}
	return err
}

func (c *meteredConn) SetReadDeadline(t time.Time) error {
	return c.deadlines.setDeadline(&c.deadlines.in, t)
}

func (c *meteredConn) SetWriteDeadline(t time.Time) error {
	return c.deadlines.setDeadline(&c.deadlines.out, t)
}

// Close also ends waits for credit.
func (c *meteredConn) Close() error {
	c.deadlines.endPauses()
	c.endHold(true)
	return c.Conn.Close()
}

// paused returns how long the connection has waited for credit in all, and whether it waits
// now. A nil connection has never waited.
func (c *meteredConn) paused() (sum time.Duration, pausedNow bool) {
	if c == nil {
		return 0, false
	}
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	if c.deadlines.pauses == 0 {
		return c.deadlines.pausedBefore, false
	}
	return c.deadlines.pausedBefore + time.Since(c.deadlines.since), true
}

// closeAtOnce closes nc. It sends TLS close_notify only if that needs no wait for credit.
func closeAtOnce(nc net.Conn) error {
	if c := meteredConnOf(nc); c != nil {
		c.deadlines.endPauses()
	}
	return nc.Close()
}

// CloseWrite closes the sending direction, if the connection underneath can.
func (c *meteredConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(nc net.Conn) error {
	if half, ok := nc.(closeWriter); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection as it was dialed.
func (c *meteredConn) NetConn() net.Conn { return c.Conn }

type closeWriter interface{ CloseWrite() error }

// meteredConnOf unwraps a connection to its metered connection; nil if there is none.
func meteredConnOf(nc net.Conn) *meteredConn {
	for layer := range Layers(nc) {
		switch c := layer.(type) {
		case *meteredConn:
			return c
		case *bufferedConn:
			return meteredConnOf(c.Conn)
		}
	}
	return nil
}

// Layers yields a connection and those underneath, as far as each names the next by NetConn.
func Layers(nc net.Conn) iter.Seq[net.Conn] {
	return func(yield func(net.Conn) bool) {
		for nc != nil && yield(nc) {
			inner, ok := nc.(interface{ NetConn() net.Conn })
			if !ok {
				return
			}
			nc = inner.NetConn()
		}
	}
}
