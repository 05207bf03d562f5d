package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// innerHandler answers the requests inside CONNECTs.
type innerHandler struct {
	forwarder *forwarder
	refusals  *certificateRefusals
}

// ServeHTTP forwards a request to the target of the connection's CONNECT. A request with
// another Host is refused, because limits and tokens are chosen by the target.
func (h *innerHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(p *problem.Problem) { h.forwarder.refuse(w, r, p) }
	conn := connOf(r)
	if conn == nil || conn.grant == nil {
		refuse(&problem.Bug)
		return
	}
	conn.errors.inHandler.Store(true)
	if r.Method == http.MethodConnect {
		// The next bytes may be for the tunnel that is refused, and must not be read as a
		// request.
		closeAfter(w, r)
		refuse(&problem.Method)
		return
	}
	if r.ProtoMajor == 1 && r.ProtoMinor > 1 {
		refuse(&problem.Version)
		return
	}
	if r.URL.User != nil {
		refuse(&problem.Userinfo)
		return
	}
	snapshot := h.forwarder.transport.dispatcher.Current()
	if p := readmit(snapshot.Policy(), conn); p != nil {
		refuse(p)
		return
	}
	target := conn.grant.target
	if r.Host != "" || r.ProtoAtLeast(1, 1) {
		asked, err := policy.ParseTarget(target.Scheme, r.Host)
		if err != nil {
			refuse(&problem.BadTarget)
			return
		}
		if asked != target || (r.URL.Scheme != "" && r.URL.Scheme != target.Scheme) {
			refuse(&problem.Misdirected)
			return
		}
	}
	x := &exchange{Request: dispatch.Request{Snapshot: snapshot, Target: target, Client: conn.grant.client}, conn: conn}
	h.forwarder.forward(w, r, x, conn.grant.via)
}

// connState is called by http.Server when the state of a connection changes. The first byte
// of a request shows that the client has accepted the certificate of an intercepted
// connection; a connection that ends without a request may show that it has not.
func (h *innerHandler) connState(c net.Conn, state http.ConnState) {
	onIdle(c, state)
	conn := bareConn(c)
	if conn == nil || conn.grant == nil || conn.grant.target.Scheme != "https" {
		return
	}
	switch grant := conn.grant; state {
	case http.StateActive:
		if !grant.used.Swap(true) {
			h.refusals.accepted(keyOf(conn.addr, grant.client, grant.target.Host))
		}
	case http.StateClosed:
		if !grant.used.Load() && !h.forwarder.conns.draining() {
			h.refusals.rejected(h.forwarder.transport.dispatcher.Policy(), conn.addr, grant.client, grant.target, grant.began, false)
		}
	}
}

// innerListener is the listener of the inner server. Its connections are those inside
// CONNECTs, which do not come from the network.
type innerListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newInnerListener() *innerListener {
	return &innerListener{conns: make(chan net.Conn), done: make(chan struct{})}
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
