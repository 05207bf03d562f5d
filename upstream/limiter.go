package upstream

import (
	"cmp"
	"errors"
	"net"
)

// Limiter is a Meter that is asked before bytes pass. Its methods are called
// from several goroutines at once.
//
// Each direction of a connection asks for itself, for at most 64 KiB at a time, or
// as much as it was lent beyond the limits: see Generous. Reading asks when bytes
// have come, for as many as there are, so a connection that waits for its peer holds
// no credit. (Where the system cannot tell what has come it asks before, for 4 KiB
// at most.) What is not used is given back, and what passes is told to Read and
// Wrote as ever: what was granted, less what was given back, is what has passed.
//
// A read or write that began before there was a limit, or under another Meter,
// ends as it began. It tells what passed, without having asked.
type Limiter interface {
	Meter
	// Credit waits until some of n bytes may pass, and takes 1 to n of them. When
	// done is closed it gives what can be had at once, or any error, but does not
	// wait. Any other error says that the wait was longer than the limit's stall.
	// It ends the connection, and reaches who reads or writes within an *Error of
	// the kind Budget.
	Credit(done <-chan struct{}, n int) (granted int, err error)
	// Refund gives back credit that was not used.
	Refund(n int)
	// Budgeted tells whether a byte limit holds now. It is asked before every
	// read and write; while none does, Credit is not asked.
	Budgeted() bool
}

const (
	// mostAsked is how much credit is asked for at once.
	mostAsked = 64 << 10
	// mostHeld is how much a read may ask for that does not know what has come,
	// for it keeps that while it waits.
	mostHeld = 4 << 10
	// narrowBuffer is what the system is asked to hold of a budgeted connection.
	// What lies there has been sent without credit. Linux takes twice that.
	narrowBuffer = 16 << 10
)

// limiter is who has to be asked now; nil when nobody.
func (c *meteredConn) limiter() Limiter {
	m := c.meter.Load()
	if m == nil || m.limiter == nil || !m.limiter.Budgeted() {
		return nil
	}
	if !c.narrowed.Load() {
		c.fit(m)
	}
	return m.limiter
}

// narrow has the system tell the peer sooner that nobody reads. On a connection
// that was used before, what the peer was promised still comes, and then it may
// be slow. So it takes no more requests: see late.
func (c *meteredConn) narrow(w Windowed) {
	if c.narrowed.Swap(true) || c.buffer < 0 {
		return
	}
	c.late.Store(c.born)
	tc, ok := c.Conn.(*net.TCPConn)
	switch {
	case !ok:
	case w == nil || c.born || !tellsRoom:
		tc.SetReadBuffer(cmp.Or(c.buffer, narrowBuffer))
	default: // it has promised nothing else to its peer
		size := cmp.Or(c.buffer, w.Buffer()/2)
		tc.SetReadBuffer(size)
		tc.SetWriteBuffer(size)
		c.receive(2 * size)
	}
}

// readBudgeted is Read under a byte limit.
func (c *meteredConn) readBudgeted(l Limiter, p []byte) (int, error) {
	n := c.spend(l, len(p))
	if n == 0 {
		n = min(len(p), mostHeld)
		have, known, err := c.arrival.wait()
		if err != nil {
			return 0, err
		}
		if l = c.limiter(); known { // it may be another by now
			most, wide := c.atOnce()
			if n = min(len(p), have, most); wide {
				n = min(have, most) // the next reads are paid for too
			}
		}
		if n == 0 || l == nil {
			// Without anything at hand this is the end, which is free.
			n, err := c.Conn.Read(p[:min(len(p), mostHeld)])
			c.read(n)
			return n, err
		}
		if n, err = c.creditIn(l, n); err != nil {
			return 0, err
		}
		if n > len(p) {
			c.prepay(l, n-len(p))
			n = len(p)
		}
	}
	got, err := c.Conn.Read(p[:n])
	c.took(n, max(got, 0))
	if got < n {
		l.Refund(n - max(got, 0))
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
		most, _ := c.atOnce()
		n, err := c.creditOut(l, min(len(p), most))
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

// credit asks for n bytes of one direction. Deadlines stand still meanwhile.
func (c *meteredConn) credit(b *brake, l Limiter, n int) (int, error) {
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

// stillFor is the error of a byte limit that held a connection for too long;
// nil when err is another.
func stillFor(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e.Kind == Budget {
		return e
	}
	return nil
}
