package proxy

import (
	"crypto/tls"
	"net"
	"sync"
)

// innerListener is the listener of the inner server. Its connections are those inside
// CONNECTs, which do not come from the network.
type innerListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// give hands a connection to Accept. It is false if the listener is closed.
func (l *innerListener) give(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

func (l *innerListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *innerListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *innerListener) Addr() net.Addr { return &net.UnixAddr{Name: "intercepted", Net: "abide"} }

// interceptedConn is an intercepted TLS connection, as net/http has it for HTTP/1.
// net/http watches a client by a read of one byte, on a new goroutine for each request. In
// TLS that read needs more stack than a goroutine begins with, and growing the stack costs
// more than sending a small response. So the read first waits below TLS, where little stack
// is needed.
type interceptedConn struct {
	*tls.Conn
	client *clientConn
}

func (c *interceptedConn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.client.noBody.Load() {
		if err := c.client.waitReadable(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

// Write replaces the error responses that net/http writes by itself.
func (c *interceptedConn) Write(p []byte) (int, error) { return c.client.errors.write(c.Conn, p) }

// NetConn is the TLS connection and not the TCP connection below: a relay must not pass on
// encrypted bytes.
func (c *interceptedConn) NetConn() net.Conn { return c.Conn }
