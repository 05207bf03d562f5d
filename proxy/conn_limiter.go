package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/problem"
)

// connLimiter bounds the number of client connections, in total and for each address.
type connLimiter struct {
	max, perClient atomic.Int64
	refusing       atomic.Int64 // refused connections that are still open

	mu     sync.Mutex
	total  int64
	counts map[netip.Addr]int64 // client address → its connections
}

func newConnLimiter() *connLimiter { return &connLimiter{counts: map[netip.Addr]int64{}} }

// setBounds sets the bounds. Without a configured one, half of the file descriptors are for
// clients, because each client may need one more for its upstream.
func (c *connLimiter) setBounds(b policy.Bounds) {
	limit := int64(b.Connections)
	if limit == 0 {
		limit = max(descriptors()/2-128, 16)
	}
	perClient := int64(b.PerClient)
	if perClient == 0 {
		perClient = limit
	}
	c.max.Store(limit)
	c.perClient.Store(perClient)
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
