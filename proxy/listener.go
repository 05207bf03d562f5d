package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// connLimiter bounds the client connections, in all and by address. What is
// over a bound is told so and closed; it never waits in the accept queue.
type connLimiter struct {
	max, perClient atomic.Int64

	mu    sync.Mutex
	total int64
	by    map[netip.Addr]int64 // client address → its connections

	telling atomic.Int64 // refusals that are being written
}

// maxTelling bounds the refusals that linger for their client to read them.
const maxTelling = 256

func newConnLimiter() *connLimiter { return &connLimiter{by: map[netip.Addr]int64{}} }

func (c *connLimiter) set(b policy.Bounds) {
	limit := int64(b.Connections)
	if limit == 0 {
		limit = max(descriptors()/2-128, 16)
	}
	per := int64(b.PerClient)
	if per == 0 {
		per = limit
	}
	c.max.Store(limit)
	c.perClient.Store(per)
}

// take counts a connection in, or answers which bound refuses it.
func (c *connLimiter) take(a netip.Addr) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.total >= c.max.Load():
		return &answerTooManyConnections
	case c.by[a] >= c.perClient.Load():
		return &answerTooManyFromClient
	}
	c.total++
	c.by[a]++
	return nil
}

func (c *connLimiter) give(a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.by[a]--; c.by[a] <= 0 {
		delete(c.by, a)
	}
}

// listen hands out the connections of l. opens says that l is the open listener.
func (c *connLimiter) listen(l net.Listener, s *Server, opens bool) net.Listener {
	return &clientListener{Listener: l, limiter: c, server: s, opens: opens}
}

// clientListener hands out *clientConn.
type clientListener struct {
	net.Listener
	limiter *connLimiter
	server  *Server
	opens   bool // this is the open listener
}

func (l *clientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := remoteAddr(conn)
		if over := l.limiter.take(addr); over != nil {
			l.server.metrics.Refused(over.reason)
			l.tell(conn, over)
			continue
		}
		l.server.metrics.ClientConnected()
		t := l.server.policy().Timeouts
		return &clientConn{
			Conn: conn, addr: addr, opens: l.opens, stall: t.Stall, tunnels: &l.server.tunnels, refused: l.server.metrics.Refused,
			release: func() {
				l.limiter.give(addr)
				l.server.metrics.ClientGone()
			},
		}, nil
	}
}

// tell writes a refusal and gives the client a second to read it, because
// closing with its request unread would reset the connection under the answer.
func (l *clientListener) tell(conn net.Conn, a *answer) {
	if l.limiter.telling.Add(1) > maxTelling {
		l.limiter.telling.Add(-1)
		conn.Close()
		return
	}
	go func() {
		defer l.limiter.telling.Add(-1)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second))
		if a.writeRaw(conn) != nil {
			return
		}
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
		var scrap [4096]byte
		for range 32 {
			if _, err := conn.Read(scrap[:]); err != nil {
				return
			}
		}
	}()
}

// remoteAddr is the client's address; the zero address where there is none,
// as on a pipe.
func remoteAddr(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// handoff is the listener of the inner server: connections that CONNECT has
// opened arrive on it instead of from the network.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give passes a connection on, or reports that the server has stopped.
func (h *handoff) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.done:
		return false
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handoff) Addr() net.Addr { return &net.UnixAddr{Name: "intercepted", Net: "abide"} }

type connKey struct{}

// connContext lets a handler find the connection that its request came on.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, bareConn(c))
}

func connOf(r *http.Request) *clientConn {
	c, _ := r.Context().Value(connKey{}).(*clientConn)
	return c
}
