package upstream

import (
	"net"
	"time"
)

// Windowed is a byteLimiter under which received bytes are paid for before they are
// requested: bytes in the system's receive buffer have already been sent by the peer.
type Windowed interface {
	byteLimiter
	// Window is the number of the current time window. Credit paid in one window does not
	// count in the next.
	Window() int64
	// Open is Credit for the bytes that may arrive after a request is written: at least
	// least bytes, unless the limits never grant that many.
	Open(done <-chan struct{}, n, least int) (granted int, err error)
	// Refill is Credit for bytes about to be read and the bytes that may arrive in their
	// place. A connection without progress may get less, and after patience nothing.
	Refill(done <-chan struct{}, n, least int, patience time.Duration) (granted int, err error)
	// Buffer is the size in bytes of a connection's receive buffer. It is called when a
	// connection is dialed.
	Buffer() int
	// CountedOnly tells whether there is enough for all that may pass. Then reads and writes
	// do not ask for credit, but call Pay. It is called before every read and write.
	CountedOnly() bool
	// Pay takes credit for n bytes that have passed without having asked.
	Pay(n int)
	// Hold adds n to the number of bytes that connections may receive before they are read.
	Hold(n int)
}

const (
	// settleTime is the time without credit after which the peer knows the announced
	// window.
	settleTime = 100 * time.Millisecond
	// tunnelIdleTime is the time after which a tunnel without traffic gives its prepaid
	// credit back.
	tunnelIdleTime = time.Second
	// maxPrepaidWrite bounds the part of the first write that is paid for together with the receive
	// window.
	maxPrepaidWrite = 4 << 10
	// minRead is the minimum size of a read, if so much has arrived.
	minRead = 1 << 10
)

// noWait is a closed channel, for callers that take available credit without waiting.
var noWait = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// receiveCredit is the prepaid credit for a connection's receive window.
// pausableDeadlines.mu guards it.
type receiveCredit struct {
	window          receiveWindow
	payer           Windowed // whose credit it is; nil: nothing is paid
	knowsPeerWindow bool     // the system reports the window announced to the peer
	reading         bool     // a read is running: the number of unread bytes is unknown
	closed          bool     // the connection is closed: all is counted and refunded, or will be after the read that is running
	pooled          bool     // a Transport reports when requests begin and end on it
	pendingRequests int      // requests without a complete answer
	lastMoved       time.Time
	idleTimer       *time.Timer
}

// startPrepaying begins to pay for a receive buffer of that size.
func (c *meteredConn) startPrepaying(size int) {
	promised := c.arrival.peerWindow()
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	c.prepaid.window.size, c.prepaid.knowsPeerWindow = size, promised > 0
	c.paysAhead.Store(true)
}

// roomSize is the size of the receive buffer that is paid for; 0: none.
func (c *meteredConn) roomSize() int {
	if !c.paysAhead.Load() {
		return 0
	}
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	return c.prepaid.window.size
}

// windowed is the Windowed that pays for the receive window; nil if there is none.
func (c *meteredConn) windowed() Windowed {
	if m := c.meter.Load(); m != nil && c.paysAhead.Load() {
		return m.windowed
	}
	return nil
}

// refresh gives back credit of another payer than w, and updates the window. The caller
// holds the lock.
func (c *meteredConn) refresh(w Windowed, have int) (back int, to Windowed) {
	r := &c.prepaid
	if r.payer != w {
		next := beforeRequest
		if r.pooled && r.window.state == answerComplete {
			next = answerComplete
		}
		back, to = r.window.endExchange(next), r.payer
		r.payer, r.window.number, r.window.unread, r.window.paid = w, w.Window(), have, 0
	}
	r.window.update(w.Window(), have)
	return back, to
}

// withCredit calls do under the lock, after updating the window. Bytes that arrive during a
// read are counted after the read, since otherwise bytes that the read took would count as
// new.
func (c *meteredConn) withCredit(w Windowed, do func(r *receiveCredit)) {
	c.deadlines.mu.Lock()
	back, to := 0, w
	if r := &c.prepaid; !r.closed && (!r.reading || r.payer != w) {
		back, to = c.refresh(w, c.arrival.unread())
	}
	do(&c.prepaid)
	c.deadlines.mu.Unlock()
	if back > 0 && to != nil {
		to.Refund(back)
	}
}

// creditOut gets credit for writing. A write that requests something also needs credit for
// the answer. If there is none, the write borrows from the prepaid credit: it does not wait
// for an answer yet.
func (c *meteredConn) creditOut(l byteLimiter, n int) (granted int, err error) {
	w, ask := c.windowed(), func(done <-chan struct{}) (int, error) { return l.Credit(done, n) }
	if w == nil {
		return c.credit(&c.deadlines.out, ask)
	}
	need, ahead := 0, min(n, maxPrepaidWrite)
	c.withCredit(w, func(r *receiveCredit) {
		need, r.lastMoved = r.window.toWrite(), time.Now()
	})
	if need == 0 {
		if got, err := l.Credit(noWait, n); err == nil {
			return got, nil
		}
		c.withCredit(w, func(r *receiveCredit) { granted = r.window.borrow(n) })
		if granted > 0 {
			return granted, nil
		}
		return c.credit(&c.deadlines.out, ask)
	}
	got, err := c.credit(&c.deadlines.out, func(done <-chan struct{}) (int, error) {
		return w.Open(done, need+ahead, need+1)
	})
	if err != nil {
		return 0, err
	}
	c.withCredit(w, func(r *receiveCredit) {
		granted = r.window.splitGrant(got, n)
		c.startIdleTimer(r)
	})
	c.refundClosed(w, 0)
	return granted, nil
}

// creditIn gets credit for reading n bytes that have arrived, and for the bytes that may
// arrive in their place. With a large receive buffer all arrived bytes are paid for at
// once, for the next reads.
func (c *meteredConn) creditIn(l byteLimiter, n int) (granted int, err error) {
	w := c.windowed()
	if w == nil {
		return c.credit(&c.deadlines.in, func(done <-chan struct{}) (int, error) { return l.Credit(done, n) })
	}
	for {
		need, least, more := 0, 0, false
		c.withCredit(w, func(r *receiveCredit) {
			ahead := n
			if r.window.size > maxCredit {
				granted, ahead = r.window.readable(n), max(min(r.window.unread, maxCredit), n)
				r.reading = granted > 0
			}
			need, least, more, r.lastMoved = r.window.toRead(ahead), r.window.toRead(min(n, minRead)), r.window.paid > 0, time.Now()
		})
		if granted > 0 {
			return granted, nil
		}
		patience := time.Duration(0)
		if more {
			patience = settleTime
		}
		got, err := c.credit(&c.deadlines.in, func(done <-chan struct{}) (int, error) {
			return w.Refill(done, need, least, patience)
		})
		if err != nil {
			return 0, err
		}
		if got == 0 && patience > 0 {
			c.refundSurplus(w)
			continue
		}
		closed := false
		c.withCredit(w, func(r *receiveCredit) {
			r.window.paid += got
			if closed = r.closed; closed {
				return // what is unread is counted
			}
			granted = r.window.readable(n)
			if got < least { // no more credit is to be expected soon
				granted = min(n, got)
			}
			r.reading = granted > 0
		})
		c.refundClosed(w, granted)
		switch {
		case closed:
			return 0, net.ErrClosed
		case granted > 0:
			return granted, nil
		}
	}
}

// refundClosed gives back credit that was taken while the connection was closed, except for
// bytes about to be read.
func (c *meteredConn) refundClosed(w Windowed, reading int) {
	c.deadlines.mu.Lock()
	back := 0
	if r := &c.prepaid; c.deadlines.closing {
		back = max(r.window.paid-reading, 0)
		r.window.paid -= back
	}
	c.deadlines.mu.Unlock()
	if back > 0 {
		w.Refund(back)
	}
}

// consumed records that got of n credited bytes were read, and returns how much credit goes
// back.
func (c *meteredConn) consumed(n, got int) (back int) {
	if !c.paysAhead.Load() {
		return n - got
	}
	left := 0 // arrived and paid for, but will not be read
	c.deadlines.mu.Lock()
	r := &c.prepaid
	r.window.unread = max(r.window.unread-got, 0)
	if r.closed {
		left = r.window.countUnread()
	} else {
		back = max(min(n-got, r.window.paid), 0)
		r.window.paid -= back
	}
	r.reading = false
	c.deadlines.mu.Unlock()
	c.read(left)
	return back
}

// refundSurplus gives back credit for more window than the peer has: how much the system
// buffers depends on the sizes of packets.
func (c *meteredConn) refundSurplus(w Windowed) {
	back := 0
	c.withCredit(w, func(r *receiveCredit) {
		promised := r.window.size - r.window.unread
		if r.knowsPeerWindow {
			promised = c.arrival.peerWindow()
		}
		if r.window.unread > 0 {
			back = r.window.surplus(promised)
		}
	})
	if back > 0 {
		w.Refund(back)
	}
}

// startIdleTimer lets a tunnel give credit back after a time without traffic. The caller
// holds the lock.
func (c *meteredConn) startIdleTimer(r *receiveCredit) {
	switch {
	case r.pooled || c.deadlines.closing:
	case r.idleTimer == nil:
		r.idleTimer = time.AfterFunc(tunnelIdleTime, c.idleTimeout)
	default:
		r.idleTimer.Reset(tunnelIdleTime)
	}
}

func (c *meteredConn) idleTimeout() {
	w := c.windowed()
	if w == nil {
		return
	}
	back := 0
	c.withCredit(w, func(r *receiveCredit) {
		switch still := time.Since(r.lastMoved); {
		case r.pooled || c.deadlines.closing || r.window.state != awaitingAnswer:
		case still < tunnelIdleTime:
			r.idleTimer.Reset(tunnelIdleTime - still)
		case r.window.unread > 0 || c.deadlines.pauses > 0:
			r.idleTimer.Reset(tunnelIdleTime)
		default:
			back = r.window.endExchange(beforeRequest)
		}
	})
	if back > 0 {
		w.Refund(back)
	}
}

// startRequest records that a Transport uses the connection for a request.
func (c *meteredConn) startRequest() {
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	c.prepaid.pooled, c.prepaid.pendingRequests = true, 1
}

// anotherRequest records that another request follows on the connection.
func (c *meteredConn) anotherRequest() {
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	r := &c.prepaid
	if r.pendingRequests++; r.window.state == answerComplete {
		r.window.state = beforeRequest
	}
}

// requestComplete records that the answer of a request is complete. After the last request,
// surplus credit is given back.
func (c *meteredConn) requestComplete() {
	c.stopReceiving(func(r *receiveCredit) bool {
		r.pendingRequests--
		return r.pendingRequests == 0
	}, false)
}

// endReceiving is called before the connection is closed. Bytes that have arrived and will
// not be read are counted: they are paid for.
func (c *meteredConn) endReceiving() {
	unread := c.stopReceiving(func(r *receiveCredit) bool {
		if r.idleTimer != nil {
			r.idleTimer.Stop()
		}
		return true
	}, true)
	c.read(unread)
}

// stopReceiving gives back credit for bytes that did not arrive, if end returns true. At the
// close of the connection it returns how many paid bytes have arrived and are not being read.
// After that it does nothing: a connection may be closed by several goroutines.
func (c *meteredConn) stopReceiving(end func(r *receiveCredit) bool, closes bool) (unread int) {
	c.deadlines.mu.Lock()
	r, back := &c.prepaid, 0
	to := r.payer
	over := end(r) && !r.closed
	if over && to != nil {
		if !r.reading { // otherwise consumed counts what is unread
			r.window.update(to.Window(), c.arrival.unread())
			if closes {
				unread = r.window.countUnread()
			}
		}
		back = r.window.endExchange(answerComplete)
	}
	if over {
		r.window.state, r.closed = answerComplete, closes
	}
	c.deadlines.mu.Unlock()
	if back > 0 {
		to.Refund(back)
	}
	return unread
}

// becomesTunnel records that the connection is a tunnel from now on.
func (c *meteredConn) becomesTunnel() {
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	r := &c.prepaid
	if r.pooled = false; r.window.state == awaitingAnswer {
		c.startIdleTimer(r)
	}
}

// receiveWindow calculates how many bytes may still arrive on a connection before it is
// read, and how many of them are paid for. Pure; the caller synchronises.
//
// In one time window no more bytes arrive than were paid for in it. The exception is a
// connection that has waited for its peer since an earlier window: its bytes are paid for
// when they are seen.
type receiveWindow struct {
	size   int           // size of the receive buffer, the most that can arrive unread
	paid   int           // credit of this window minus the bytes that arrived in it; below 0: owed
	unread int           // unread bytes at the last update
	number int64         // of the time window that paid belongs to
	state  exchangePhase // phase of the exchange with the peer
}

// exchangePhase tells whether the peer has a reason to send something.
type exchangePhase uint8

const (
	beforeRequest  exchangePhase = iota // the next write requests something
	awaitingAnswer                      // something was requested
	answerComplete                      // the answer is complete, and writes request nothing
)

// update takes the number of the time window and that of the unread bytes. In a new window nothing is paid: bytes that were
// unread before belong to the old window, together with the bytes directly behind them,
// since the sender only waited for buffer space. Bytes on a connection that was completely
// read belong to the new window.
func (r *receiveWindow) update(number int64, have int) {
	if r.number != number {
		r.number, r.paid = number, 0
		if r.unread > 0 {
			r.unread = have
		}
	}
	r.paid -= max(have-r.unread, 0)
	r.unread = have
}

// capacity returns the number of bytes that may still arrive without a read.
func (r *receiveWindow) capacity() int { return max(r.size-r.unread, 0) }

// toWrite is the credit needed for the answer before something is written.
func (r *receiveWindow) toWrite() int {
	if r.state != beforeRequest {
		return 0
	}
	return max(r.capacity()-r.paid, 0)
}

// splitGrant divides a grant between a write of n bytes, which requests something, and the
// answer. The write gets between 1 and n bytes: the answer may need less than when the
// credit was requested.
func (r *receiveWindow) splitGrant(granted, n int) (write int) {
	part := max(min(max(granted-1, 0), r.toWrite()), granted-n)
	r.paid += part
	r.state = awaitingAnswer
	return granted - part
}

// toRead is the credit needed before n bytes are read, because as many more may arrive as
// there is space for.
func (r *receiveWindow) toRead(n int) int { return max(r.capacity()+n-r.paid, 0) }

// readable returns the number of bytes, of n, that may be read with the paid credit.
func (r *receiveWindow) readable(n int) int { return max(min(n, r.paid-r.capacity()), 0) }

// borrow takes up to n bytes of the paid credit for another use, if nothing has arrived
// yet.
func (r *receiveWindow) borrow(n int) int {
	if r.unread > 0 {
		return 0
	}
	n = max(min(n, r.paid), 0)
	r.paid -= n
	return n
}

// countUnread ends the account of a connection that is closed. It returns how many arrived
// and paid bytes remain unread. What is owed for other bytes is not paid any more.
func (r *receiveWindow) countUnread() (n int) {
	n = max(r.unread-max(-r.paid, 0), 0)
	r.unread, r.paid = 0, max(r.paid, 0)
	return n
}

// surplus takes back credit for bytes that cannot arrive before the next read, because the
// peer's announced window is only promised bytes. The next read pays for them again.
func (r *receiveWindow) surplus(promised int) (back int) {
	back = max(r.paid-max(promised, 0), 0)
	r.paid -= back
	return back
}

// endExchange sets the next phase: nothing more arrives until something is requested. It
// returns the credit to refund.
func (r *receiveWindow) endExchange(next exchangePhase) (back int) {
	r.state = next
	back = max(r.paid, 0)
	r.paid -= back
	return back
}
