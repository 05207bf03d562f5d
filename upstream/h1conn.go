package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// bufferSize is what one request or answer is written and read through. Larger
// pieces of a body pass by the buffers.
const bufferSize = 4 << 10

var (
	readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferSize) }}
)

// conn is one HTTP/1 connection to an origin. At any time it belongs to one
// request or lies idle in the pool; only abort may be called from elsewhere.
type conn struct {
	t    *Transport
	home *host // where it goes when idle

	nc    net.Conn     // as dialed, or the *tls.Conn over it
	raw   net.Conn     // as dialed: closing it never waits
	bare  *meteredConn // nc, when it is nothing but a counted TCP connection
	valve *valve       // under TLS, where we have put one
	state *tls.ConnectionState
	auth  string // Proxy-Authorization towards the next hop

	br   *bufio.Reader // nil while idle
	peek peeker        // tells whether an idle connection still lives

	gauge *meteredConn // what is underneath, when it counts

	h2 *multi // set on an HTTP/2 connection, which uses little else of this

	reused bool // it has answered a request before this one
	once   bool // must not be pooled, whatever the answer says

	wrote   bool // a byte of this request may have left
	heard   bool // a byte of this answer has come
	readErr error

	// The deadlines that are set on the connection now; zero is none. Setting
	// one costs more than looking at the clock, so one that is at most slack
	// too late is left as it is.
	readBy, writeBy time.Time
	patience        time.Duration // StallTimeout while a body is read: each read gets anew; 0 leaves the deadline alone

	abortFn func()
	closed  atomic.Bool // close was called
	aborted atomic.Bool
	one     [1]byte

	// Neighbours in the list of idle connections, and since when it lies there.
	// The pool's locks guard them.
	older, newer *conn
	since        time.Time
}

func newConn(t *Transport, h *host, nc net.Conn) *conn {
	c := &conn{t: t, home: h, nc: nc, raw: nc}
	if tc, ok := nc.(*tls.Conn); ok {
		c.raw = tc.NetConn()
		if c.valve, ok = c.raw.(*valve); ok {
			c.raw = c.valve.Conn
		}
		state := tc.ConnectionState()
		c.state = &state
	}
	c.gauge = gauge(nc)
	c.abortFn = c.abort
	if c.gauge != nil {
		c.gauge.keep()
	}
	c.peek = newPeeker(nc)
	if m, ok := nc.(*meteredConn); ok {
		if _, ok := m.Conn.(*net.TCPConn); ok {
			c.bare = m
		}
	}
	return c
}

// begin readies the connection for a request.
func (c *conn) begin() {
	if c.br == nil {
		c.br = readers.Get().(*bufio.Reader)
		c.br.Reset((*connReader)(c))
	}
	c.wrote, c.heard, c.readErr = false, false, nil
	c.patience = 0
}

// rest readies the connection for the pool.
func (c *conn) rest() {
	c.reused = true
	if c.gauge != nil {
		c.gauge.hasAll()
	}
	c.releaseReader()
}

func (c *conn) releaseReader() {
	if c.br != nil {
		c.br.Reset(nil)
		readers.Put(c.br)
		c.br = nil
	}
}

// abort cuts the connection from any goroutine, without a TLS goodbye, which
// could wait for the peer.
func (c *conn) abort() {
	c.aborted.Store(true)
	c.abortGauge()
}

// abortGauge cuts the connection underneath, whatever is said on it.
func (c *conn) abortGauge() {
	if c.gauge != nil {
		c.gauge.hasten()
	}
	c.raw.Close()
}

// close is for the owner of the connection, and for the pool when it is idle.
func (c *conn) close() {
	if c.closed.Swap(true) {
		return
	}
	switch {
	case c.h2 != nil:
		c.h2.cc.Close()
	case c.aborted.Load():
		closeAtOnce(c.raw)
	default:
		closeAtOnce(c.nc)
	}
	c.t.pool.left(c.home)
}

// budgeted tells whether a byte limit holds on the connection.
func (c *conn) budgeted() bool { return c.gauge != nil && c.gauge.limiter() != nil }

// more reads what has come already into p, without waiting for any.
func (c *conn) more(p []byte) int {
	if c.bare == nil || c.bare.limiter() != nil {
		return 0
	}
	n := c.peek.more(p)
	c.bare.read(n)
	return n
}

// connReader is the conn as its bufio.Reader sees it.
type connReader conn

func (r *connReader) Read(p []byte) (int, error) {
	c := (*conn)(r)
	if c.patience > 0 {
		c.expectRead(c.patience)
	}
	n, err := c.nc.Read(p)
	if n > 0 {
		c.heard = true
	}
	if err != nil {
		c.readErr = err
	}
	return n, err
}

// connWriter is the conn as the bufio.Writers see it.
type connWriter conn

func (w *connWriter) Write(p []byte) (int, error) {
	c := (*conn)(w)
	if d := c.t.StallTimeout; d > 0 {
		c.expectWrite(d)
	}
	n, err := c.nc.Write(p)
	if n > 0 {
		c.wrote = true
	}
	return n, err
}

// slack is how much later than asked for a deadline may strike.
func slack(d time.Duration) time.Duration { return min(d/8, 2*time.Second) }

// expectRead sees to it that reads fail d from now, or up to slack later.
// Without d they never do.
func (c *conn) expectRead(d time.Duration) {
	if d <= 0 {
		if !c.readBy.IsZero() {
			c.readBy = time.Time{}
			c.raw.SetReadDeadline(c.readBy)
		}
		return
	}
	now := time.Now()
	if left := c.readBy.Sub(now); left < d || left > d+slack(d) {
		c.readBy = now.Add(d + slack(d))
		c.raw.SetReadDeadline(c.readBy)
	}
}

func (c *conn) expectWrite(d time.Duration) {
	now := time.Now()
	if left := c.writeBy.Sub(now); left < d || left > d+slack(d) {
		c.writeBy = now.Add(d + slack(d))
		c.raw.SetWriteDeadline(c.writeBy)
	}
}

// long ago, as a deadline, makes a read take what is at hand.
var longAgo = time.Unix(1, 0)

// silent tells whether TLS holds nothing back that came together with the
// answer, such as the peer's goodbye: the peeker cannot see that.
func (c *conn) silent() bool {
	if c.valve != nil {
		c.valve.shut = true
		defer func() { c.valve.shut = false }()
	} else {
		c.readBy = longAgo
		c.raw.SetReadDeadline(longAgo)
	}
	n, err := c.nc.Read(c.one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// valve lies between TLS and the connection underneath. While it is shut nothing is
// read from there, as with a deadline that has passed, but without the cost of setting
// one for each request. It belongs to whom the connection belongs to.
type valve struct {
	net.Conn
	shut bool
}

func (v *valve) Read(p []byte) (int, error) {
	if v.shut {
		return 0, os.ErrDeadlineExceeded
	}
	return v.Conn.Read(p)
}

// NetConn is the connection underneath.
func (v *valve) NetConn() net.Conn { return v.Conn }

// clearDeadlines is for a connection that leaves our hands.
func (c *conn) clearDeadlines() {
	c.readBy, c.writeBy, c.patience = time.Time{}, time.Time{}, 0
	c.raw.SetDeadline(time.Time{})
}

// fail turns what reading or writing the connection said into an *Error.
// waiting is what a timeout means at this point.
func (c *conn) fail(ctx context.Context, waiting Kind, err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		e.Sent = e.Sent || c.wrote
		return e
	}
	e = &Error{Kind: Closed, Sent: c.wrote, Err: err}
	var timeout net.Error
	var bad malformed
	var body *RequestBodyError
	switch {
	case ctx.Err() != nil:
		e.Kind, e.Err = Canceled, ctx.Err()
	case errors.As(err, &body):
		e.Kind = Upload
	case errors.As(err, &bad):
		e.Kind = Protocol
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Kind = waiting
	default:
		if e.TLS = wantsCertificate(err); e.TLS != nil {
			e.Kind = TLS
		}
	}
	return e
}

// hungUp tells whether err means that the peer closed the connection, rather
// than that it was slow or said something wrong.
func hungUp(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return isAny(err, errsReset)
}
