package proxy

import (
	"cmp"
	"context"
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
		l.metrics.ClientConnected()
		return &clientConn{
			Conn: conn, addr: addr, addrText: addr.String(), trustsCA: l.trustsCA, conns: l.conns,
			writes: writeDeadline{stall: l.policy().Timeouts.Stall},
			errors: httpErrors{refused: l.metrics.Refused},
			onClose: func() {
				l.limiter.giveBack(addr)
				l.metrics.ClientGone()
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
		var unwanted [4096]byte
		for range 32 {
			if _, err := conn.Read(unwanted[:]); err != nil {
				return
			}
		}
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
	limit := int64(b.Connections)
	if limit == 0 {
		limit = max(descriptors()/2-128, 16)
	}
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

// idleBeforeClose is for how long a tunnel must have been idle to be closed before the
// drain time is over. Nobody can see whether the exchange inside a tunnel is complete. A
// tunnel whose client sent the last bytes may wait for a response and gets the whole time.
func idleBeforeClose(drain time.Duration) time.Duration { return min(drain/3, 10*time.Second) }

// drainStep is the time between two looks at the connections while they are drained.
const drainStep = 50 * time.Millisecond

// trackedConns are the client connections that no http.Server has: tunnels, and those that
// are being opened or closed. The zero value is empty.
type trackedConns struct {
	mu    sync.Mutex
	open  map[net.Conn]*trackedConn
	limit context.Context // until when they may go on; nil before drain
	idle  time.Duration   // set with limit
}

type trackedConn struct {
	last       atomic.Int64 // sinceStart of the last byte
	fromClient atomic.Bool  // the client sent the last byte
	cancel     context.CancelFunc
}

// relay calls copy, which copies bytes until its context ends, and calls active after each
// read: up says that the client sent the bytes.
func (t *trackedConns) relay(conn net.Conn, copy func(ctx context.Context, active func(up bool))) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tracked := &trackedConn{cancel: cancel}
	tracked.last.Store(int64(sinceStart()))
	if !t.enter(conn, tracked) {
		conn.Close()
		return
	}
	defer t.remove(conn)
	copy(ctx, func(up bool) {
		tracked.last.Store(int64(sinceStart()))
		tracked.fromClient.Store(up)
	})
}

// add tracks a connection that is being opened or closed. It is false if the drain time is
// over.
func (t *trackedConns) add(conn net.Conn) bool {
	return t.enter(conn, &trackedConn{cancel: func() { conn.Close() }})
}

func (t *trackedConns) enter(conn net.Conn, tracked *trackedConn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit != nil && t.limit.Err() != nil {
		return false
	}
	if t.open == nil {
		t.open = map[net.Conn]*trackedConn{}
	}
	t.open[conn] = tracked
	return true
}

func (t *trackedConns) remove(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, conn)
}

// drain begins to drain: connections may go on until limit ends, and tunnels that are idle
// for longer than idle are closed earlier.
func (t *trackedConns) drain(limit context.Context, idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.idle = limit, idle
}

func (t *trackedConns) draining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limit != nil
}

// wait returns when no connection is left. It closes idle tunnels, and all connections when
// ctx ends.
func (t *trackedConns) wait(ctx context.Context) {
	look := time.NewTicker(drainStep)
	defer look.Stop()
	over := ctx.Done()
	for t.count() > 0 {
		select {
		case <-look.C:
			t.close(over == nil)
		case <-over:
			over = nil
			t.close(true)
		}
	}
}

func (t *trackedConns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// close ends idle tunnels, or all connections.
func (t *trackedConns) close(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := int64(sinceStart() - t.idle)
	for _, tracked := range t.open {
		if all || tracked.last.Load() < before && !tracked.fromClient.Load() {
			tracked.cancel()
		}
	}
}
