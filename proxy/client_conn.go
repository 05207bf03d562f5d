package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// lingerTime and lingerBytes bound how much of an unwanted request body is read and
// discarded, so that the client can read the response.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 20
)

// halfClose delays the end of a client's bytes (EOF) while a request of the connection is
// sent. net/http watches the connection while a handler runs, takes EOF for a client that
// has left, and cancels the request. A client that has closed only its sending side still
// reads its response.
type halfClose struct {
	delays atomic.Bool // EOF is delayed

	mu      sync.Mutex
	expired bool          // the read deadline lies in the past
	waiting chan struct{} // closed to end a wait; nil: nothing waits
	since   time.Time     // of the first EOF that was delayed
}

// left returns the time of the first EOF that was delayed, or else now.
func (h *halfClose) left(now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() {
		return h.since
	}
	return now
}

// delay sets whether EOF is delayed from now on. While a request waits in the queue, EOF is
// not delayed: a client that closes its sending side then has left, and nothing is spent on
// its request.
func (h *halfClose) delay(yes bool) {
	if h.delays.Load() == yes {
		return
	}
	h.delays.Store(yes)
	if !yes {
		h.mu.Lock()
		h.wake()
		h.mu.Unlock()
	}
}

// wait returns io.EOF after dispatch.HalfCloseGrace, or earlier when EOF is no longer
// delayed. It returns os.ErrDeadlineExceeded when the read deadline passes first: net/http
// ends its watch by a read deadline in the past.
func (h *halfClose) wait() error {
	h.mu.Lock()
	if h.expired {
		h.mu.Unlock()
		return os.ErrDeadlineExceeded
	}
	woken := make(chan struct{})
	h.waiting = woken
	if h.since.IsZero() {
		h.since = time.Now()
	}
	h.mu.Unlock()
	select {
	case <-time.After(dispatch.HalfCloseGrace):
	case <-woken:
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.expired {
			return os.ErrDeadlineExceeded
		}
	}
	return io.EOF
}

// setDeadline follows the connection's read deadline. The zero time is no deadline.
func (h *halfClose) setDeadline(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expired = !t.IsZero() && t.Before(time.Now())
	if h.expired {
		h.wake()
	}
}

// wake ends a wait. h.mu is held.
func (h *halfClose) wake() {
	if h.waiting != nil {
		close(h.waiting)
		h.waiting = nil
	}
}

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

// httpErrors replaces the error responses that net/http writes by itself, for HTTP/1
// requests that it cannot read and therefore gives to no handler. net/http writes to an
// HTTP/1 client outside a handler only then, so such a response is known by that.
type httpErrors struct {
	inHandler atomic.Bool         // from the begin of a request's handler to the end of the request
	refused   func(reason string) // counts a response that was replaced; nil: nothing counts
}

// write writes p to a client, or abide's error response if p is one of net/http's.
func (e *httpErrors) write(to io.Writer, p []byte) (int, error) {
	if e.inHandler.Load() {
		return to.Write(p)
	}
	replacement := problemOf(p)
	if replacement == nil {
		return to.Write(p)
	}
	if e.refused != nil {
		e.refused(replacement.Reason)
	}
	if err := replacement.WriteRaw(to); err != nil {
		return 0, err
	}
	return len(p), nil
}

// problemOf is abide's counterpart of an error response of net/http, nil if text is
// no such response.
func problemOf(text []byte) *problem.Problem {
	if !bytes.HasPrefix(text, []byte("HTTP/1.")) || len(text) < len("HTTP/1.1 400") {
		return nil
	}
	return problemOfStatus[string(text[len("HTTP/1.1 "):len("HTTP/1.1 400")])]
}

var problemOfStatus = map[string]*problem.Problem{
	"400": &problem.Malformed, "417": &problem.Expectation, "431": &problem.LargeHead, "501": &problem.Coding, "505": &problem.Version,
}

// clientConn is a client's TCP connection. It has no method ReadFrom, so that net/http
// writes a response's head and a small body at once.
type clientConn struct {
	net.Conn
	addr      netip.Addr // the zero address where there is none, as on a pipe
	addrText  string     // addr as text
	trustsCA  bool       // the connection came to the open listener
	conns     *trackedConns
	onClose   func()          // nil: nothing is called
	pending   []byte          // was read from Conn, and is delivered by the next Reads
	raw       syscall.RawConn // of Conn; set by waitReadable
	halfClose halfClose
	writes    writeDeadline
	errors    httpErrors
	grant     *grant      // set by CONNECT before the inner server has the connection; else nil
	noBody    atomic.Bool // a request is served of which nothing remains to be read
	discards  atomic.Bool // the client may send a body that no handler reads
	closed    atomic.Bool
}

// grant is a CONNECT that was accepted: what applies to all requests inside it.
type grant struct {
	target  policy.Target
	client  *dispatch.Client // nil: access.clients is empty
	via     string           // Via header of the CONNECT
	options dispatch.RequestOptions
	policy  *policy.Policy // by which the client was admitted
	began   time.Time
	key     refusedKey  // of https: what a refused certificate counts for
	settled atomic.Bool // a request has come inside, or none within timeouts.header: the end says nothing of the certificate
}

// bareConn finds the clientConn below a TLS connection; nil if there is none.
func bareConn(c net.Conn) *clientConn {
	for layer := range upstream.Layers(c) {
		if conn, ok := layer.(*clientConn); ok {
			return conn
		}
	}
	return nil
}

type connKey struct{}

// connOf is the connection of a request; nil if there is none.
func connOf(r *http.Request) *clientConn {
	c, _ := r.Context().Value(connKey{}).(*clientConn)
	return c
}

// onIdle is called by http.Server when the state of a connection changes.
func onIdle(c net.Conn, state http.ConnState) {
	if conn := bareConn(c); conn != nil && state == http.StateIdle {
		conn.errors.inHandler.Store(false)
	}
}

// NetConn lets upstream.Relay find the TCP connection, to splice it.
func (c *clientConn) NetConn() net.Conn { return c.Conn }

func (c *clientConn) Read(p []byte) (int, error) {
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		c.pending = c.pending[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		refusePlain(err)
		if c.grant != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			c.grant.settled.Store(true)
		}
	}
	if err == io.EOF && n == 0 && c.halfClose.delays.Load() {
		return 0, c.halfClose.wait()
	}
	return n, err
}

// refusePlain answers a client that spoke plain http where the listener speaks TLS. err is that of
// reading from the connection.
func refusePlain(err error) {
	if notTLS, ok := errors.AsType[tls.RecordHeaderError](err); ok && notTLS.Conn != nil {
		_ = problem.PlainHTTP.WriteRaw(notTLS.Conn) // the client may have left
	}
}

func (c *clientConn) Write(p []byte) (int, error) {
	c.writes.extend(c.Conn)
	return c.errors.write(c.Conn, p)
}

func (c *clientConn) SetReadDeadline(t time.Time) error {
	c.halfClose.setDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *clientConn) SetWriteDeadline(t time.Time) error { return c.writes.set(c.Conn, t) }

// SetDeadline sets both deadlines. The deadline that Write has set goes too, because the
// connection gets another owner.
func (c *clientConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.writes.replace(c.Conn, t)
}

// name is the client's address as text, "" for no connection.
func (c *clientConn) name() string {
	if c == nil {
		return ""
	}
	return c.addrText
}

// requestOptions are the options that the CONNECT of this connection gave for all requests
// inside. c may be nil.
func (c *clientConn) requestOptions() dispatch.RequestOptions {
	if c == nil || c.grant == nil {
		return dispatch.RequestOptions{}
	}
	return c.grant.options
}

func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Close lingers while the client is still sending. Closing at once would reset the
// connection, and the client would lose the response that it has not read yet.
func (c *clientConn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return c.Conn.Close()
	}
	c.halfClose.setDeadline(time.Unix(1, 0)) // no Read waits any more
	if c.discards.Load() && c.conns != nil && c.conns.add(c) {
		go c.linger()
		return nil
	}
	return c.end()
}

func (c *clientConn) end() error {
	if c.onClose != nil {
		c.onClose()
	}
	return c.Conn.Close()
}

// linger reads and discards what the client sends, within lingerTime and lingerBytes.
func (c *clientConn) linger() {
	defer c.conns.remove(c)
	defer c.end()
	c.CloseWrite()
	c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, c.Conn, lingerBytes)
}

// waitReadable waits until the client has sent something or closed the connection. It
// returns at once where the system cannot tell.
func (c *clientConn) waitReadable() error {
	if len(c.pending) > 0 {
		return nil
	}
	if c.raw == nil {
		if c.raw = upstream.RawConn(c.Conn); c.raw == nil {
			return nil
		}
	}
	return c.raw.Read(upstream.Readable)
}

// hasLeft reports whether the client has closed the connection, or its sending side.
func (c *clientConn) hasLeft() (left bool) {
	if raw := upstream.RawConn(c.Conn); raw != nil {
		err := raw.Control(func(fd uintptr) { left = peerClosed(fd) })
		left = left || err != nil
	}
	return left
}
