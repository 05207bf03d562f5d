package proxy

import (
	"cmp"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/problem"
)

// maxRefusing bounds the refused connections that stay open for their client to read why.
const maxRefusing = 256

// clientListener accepts client connections, each as a *clientConn. A connection over a
// bound gets an error response and is closed; it never waits in the accept queue.
type clientListener struct {
	net.Listener
	limiter  *connLimiter
	metrics  *metrics.Metrics
	conns    *trackedConns
	policy   func() *policy.Policy
	trustsCA bool // this is the open listener, whose clients trust the CA
}

func (l *clientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := remoteAddr(conn)
		if over := l.limiter.take(addr); over != nil {
			l.metrics.Refused(over.Reason)
			l.refuse(conn, over)
			continue
		}
		l.metrics.Clients.Add(1)
		return &clientConn{
			Conn: conn, addr: addr, addrText: addr.String(), trustsCA: l.trustsCA, conns: l.conns,
			writes: writeDeadline{stall: l.policy().Timeouts.Stall},
			errors: httpErrors{refused: l.metrics.Refused},
			onClose: func() {
				l.limiter.giveBack(addr)
				l.metrics.Clients.Add(-1)
			},
		}, nil
	}
}

// refuse writes an error response and gives the client a second to read it. Closing while
// the client's request is unread would reset the connection, and the response with it.
func (l *clientListener) refuse(conn net.Conn, over *problem.Problem) {
	if l.limiter.refusing.Add(1) > maxRefusing {
		l.limiter.refusing.Add(-1)
		conn.Close()
		return
	}
	go func() {
		defer l.limiter.refusing.Add(-1)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second))
		if over.WriteRaw(conn) != nil {
			return
		}
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, conn, 128<<10) // the client may send more, or end sooner
	}()
}

// remoteAddr is the client's address; the zero address where there is none, as on a pipe.
func remoteAddr(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// connLimiter bounds the number of client connections, in total and for each address.
type connLimiter struct {
	max, perClient atomic.Int64
	refusing       atomic.Int64 // refused connections that are still open

	mu     sync.Mutex
	total  int64
	counts map[netip.Addr]int64 // client address → its connections
}

// setBounds sets the bounds. Without a configured one, half of the file descriptors are for
// clients, because each client may need one more for its upstream.
func (c *connLimiter) setBounds(b policy.Bounds) {
	limit := cmp.Or(int64(b.Connections), max(descriptors()/2-128, 16))
	c.max.Store(limit)
	c.perClient.Store(cmp.Or(int64(b.PerClient), limit))
}

// take counts a connection of an address, or returns the bound that refuses it.
func (c *connLimiter) take(a netip.Addr) *problem.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.total >= c.max.Load():
		return &problem.TooManyConnections
	case c.counts[a] >= c.perClient.Load():
		return &problem.TooManyFromClient
	}
	c.total++
	c.counts[a]++
	return nil
}

// giveBack ends the count of a connection.
func (c *connLimiter) giveBack(a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.counts[a]--; c.counts[a] <= 0 {
		delete(c.counts, a)
	}
}
