package upstream

import (
	"bufio"
	"container/list"
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

// bufferSize is the size of the read and write buffers of a connection. Larger pieces of a
// body are passed on without them.
const bufferSize = 4 << 10

var (
	readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferSize) }}
)

// conn is one HTTP/1 connection to an origin, or the frame of an HTTP/2 connection. At any
// time it belongs to one request or is idle in the pool; only abort may be called by other
// goroutines.
type conn struct {
	t    *Transport
	home *host // the host whose idle list it belongs to

	// The wrapped connections, from TLS down to TCP.
	nc        net.Conn       // as dialed, or the *tls.Conn above it
	raw       net.Conn       // as dialed: closing it never blocks
	metered   *meteredConn   // the metered connection underneath; nil if bytes are not counted
	plain     *meteredConn   // nc, if it is a metered TCP connection without TLS
	blockable *blockableConn // the layer under TLS; nil without TLS
	state     *tls.ConnectionState
	auth      string // Proxy-Authorization for the next hop

	br     *bufio.Reader // nil while idle
	socket socket        // tells whether an idle connection is still alive

	multiplexed *http2Conn // set on an HTTP/2 connection, which uses little else of conn

	reused  bool // a request was answered on it before
	noReuse bool // it must not go back to the pool, whatever the answer says

	// For the current request.
	requestWritten bool // a byte of the request may have been sent
	answered       bool // a byte of the answer has arrived
	readErr        error

	// The deadlines that are set on the connection; zero: none. Setting a deadline costs more
	// than reading the clock, so a deadline that is late by at most maxTolerance is not
	// set again.
	readBy, writeBy time.Time
	patience        time.Duration // StallTimeout while a body is read: each read gets this long; 0: reads do not set the deadline

	abortFn func()
	closed  atomic.Bool // close was called
	aborted atomic.Bool
	one     [1]byte

	// The place in the pool's list of idle connections, guarded by its lock.
	place *list.Element // nil: it is not idle
	since time.Time     // when the connection became idle
}

func newConn(t *Transport, h *host, nc net.Conn) *conn {
	c := &conn{t: t, home: h, nc: nc, raw: nc}
	if tc, ok := nc.(*tls.Conn); ok {
		c.blockable = tc.NetConn().(*blockableConn)
		c.raw = c.blockable.Conn
		state := tc.ConnectionState()
		c.state = &state
	}
	c.metered = meteredConnOf(nc)
	c.abortFn = c.abort
	if c.metered != nil {
		c.metered.startRequest()
	}
	c.socket = newSocket(nc)
	if m, ok := nc.(*meteredConn); ok {
		if _, ok := m.Conn.(*net.TCPConn); ok {
			c.plain = m
		}
	}
	return c
}

// begin prepares the connection for a request.
func (c *conn) begin() {
	if c.br == nil {
		c.br = readers.Get().(*bufio.Reader)
		c.br.Reset((*connReader)(c))
	}
	c.requestWritten, c.answered, c.readErr = false, false, nil
	c.patience = 0
}

// idle prepares the connection for the pool.
func (c *conn) idle() {
	c.reused = true
	if c.metered != nil {
		c.metered.requestComplete()
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

// abort closes the connection from any goroutine. It sends no TLS close_notify, which could
// block.
func (c *conn) abort() {
	c.aborted.Store(true)
	closeAtOnce(c.raw)
}

// close closes the connection. It may be called by the owner of the connection, and by the
// pool for an idle one.
func (c *conn) close() {
	if c.closed.Swap(true) {
		return
	}
	switch {
	case c.multiplexed != nil:
		c.multiplexed.client.Close()
	case c.aborted.Load():
		closeAtOnce(c.raw)
	default:
		closeAtOnce(c.nc)
	}
	c.t.pool.connectionGone(c.home)
}

// byteLimited tells whether a byte limit applies to the connection.
func (c *conn) byteLimited() bool { return c.metered != nil && c.metered.limiter() != nil }

// readAvailable reads bytes that have arrived into p, without blocking.
func (c *conn) readAvailable(p []byte) int {
	if c.plain == nil || c.plain.asksFirst() != nil {
		return 0
	}
	n := c.socket.readAvailable(p)
	c.plain.readUnasked(n)
	return n
}

// connReader is the conn as source of its bufio.Reader.
type connReader conn

func (r *connReader) Read(p []byte) (int, error) {
	c := (*conn)(r)
	if c.patience > 0 {
		c.expectRead(c.patience)
	}
	n, err := c.nc.Read(p)
	if n > 0 {
		c.answered = true
	}
	if err != nil {
		c.readErr = err
	}
	return n, err
}

// connWriter is the conn as target of its bufio.Writer.
type connWriter conn

func (w *connWriter) Write(p []byte) (int, error) {
	c := (*conn)(w)
	if d := c.t.StallTimeout; d > 0 {
		c.expectWrite(d)
	}
	n, err := c.nc.Write(p)
	if n > 0 {
		c.requestWritten = true
	}
	return n, err
}

// maxTolerance bounds the lateness of a deadline.
const maxTolerance = 2 * time.Second

// expectRead sets the read deadline to d from now, or up to maxTolerance later. 0
// removes the deadline.
func (c *conn) expectRead(d time.Duration) {
	if d <= 0 {
		if !c.readBy.IsZero() {
			c.readBy = time.Time{}
			c.raw.SetReadDeadline(c.readBy)
		}
		return
	}
	if postpone(&c.readBy, d) {
		c.raw.SetReadDeadline(c.readBy)
	}
}

func (c *conn) expectWrite(d time.Duration) {
	if postpone(&c.writeBy, d) {
		c.raw.SetWriteDeadline(c.writeBy)
	}
}

// postpone moves a deadline to d from now, or up to a tolerance later, unless it is there already.
func postpone(by *time.Time, d time.Duration) (moved bool) {
	now, tolerance := time.Now(), min(d/8, maxTolerance)
	if left := by.Sub(now); left < d || left > d+tolerance {
		*by, moved = now.Add(d+tolerance), true
	}
	return moved
}

// noTLSData tells whether TLS has buffered nothing that arrived together with the answer,
// such as the peer's close_notify. The socket does not see such data.
func (c *conn) noTLSData() bool {
	c.blockable.blocked = true
	defer func() { c.blockable.blocked = false }()
	n, err := c.nc.Read(c.one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// blockableConn lies between TLS and the connection underneath. While blocked is set, reads
// return a timeout at once, as with a past deadline but without the cost of setting one. It
// belongs to the owner of the connection.
type blockableConn struct {
	net.Conn
	blocked bool
}

func (v *blockableConn) Read(p []byte) (int, error) {
	if v.blocked {
		return 0, os.ErrDeadlineExceeded
	}
	return v.Conn.Read(p)
}

// NetConn is the connection underneath.
func (v *blockableConn) NetConn() net.Conn { return v.Conn }

// fail makes an *Error of an error of reading or writing the connection. waiting is the
// Kind of a timeout at this point.
func (c *conn) fail(ctx context.Context, waiting Kind, err error) *Error {
	e := failure(ctx, waiting, err)
	e.Sent = e.Sent || c.requestWritten
	if e.Kind == Closed && faultOfAlert(alertOf(err)) == TLSClient { // in TLS 1.3 that alert comes after the handshake
		e.Kind, e.TLS = TLS, &TLSFailure{Fault: TLSClient}
	}
	return e
}

// closedByPeer tells whether err means that the peer closed the connection, and not a
// timeout or a malformed answer.
func closedByPeer(err error) bool {
	return isAny(err, []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed}) || isAny(err, errsReset)
}
