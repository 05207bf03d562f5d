package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
)

// lingerTime and lingerBytes bound how much of an unwanted request body is read and
// discarded, so that the client can read the response.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 20
)

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

// bareConn finds the clientConn below a TLS connection; nil if there is none.
func bareConn(c net.Conn) *clientConn {
	for c != nil {
		switch t := c.(type) {
		case *clientConn:
			return t
		case interface{ NetConn() net.Conn }:
			c = t.NetConn()
		default:
			return nil
		}
	}
	return nil
}

type connKey struct{}

// connContext is the ConnContext of http.Server: connOf finds c in the context.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, bareConn(c))
}

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
	if err == io.EOF && n == 0 && c.halfClose.delays.Load() {
		return 0, c.halfClose.wait()
	}
	return n, err
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
	c.halfClose.close()
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
		if c.raw = rawConnOf(c.Conn); c.raw == nil {
			return nil
		}
	}
	return c.raw.Read(isReadable)
}

// hasLeft tells whether the client has closed the connection, or its sending side.
func (c *clientConn) hasLeft() (left bool) {
	if raw := rawConnOf(c.Conn); raw != nil {
		err := raw.Control(func(fd uintptr) { left = peerClosed(fd) })
		left = left || err != nil
	}
	return left
}
