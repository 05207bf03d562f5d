package bandwidth

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
)

const (
	// countedPart: bytes are counted only while everything that connections hold, and as much as
	// may pass before it is counted, are under 1/countedPart of each limit, which is held for them.
	countedPart = 100
	// leastCounted is the smallest such limit in bytes. What is shown of smaller ones is exact.
	leastCounted = 100_000_000
	// heldParts and allParts are parts for what connections hold, and for that and two parts of bytes
	// that are not counted yet.
	heldParts, allParts = 6, 8
	// maxUncounted and maxUncountedOfTunnel are about the numbers of bytes of a connection that
	// pass before they are counted.
	maxUncounted, maxUncountedOfTunnel = 64 << 10, 256 << 10
	// countedRetry is the time after which it is tried again to count only.
	countedRetry = 50 * time.Millisecond
)

// counted counts the bytes of limits that are large beside all that their connections hold: no
// read or write waits for credit. What has passed is taken from the limits in steps. Until
// then, bytes that are held cover it, so no window has more bytes than its limit.
type counted struct {
	on     atomic.Bool
	most   atomic.Int64 // bytes that may have passed before they are taken; 0: credit is always asked for
	passed atomic.Int64 // bytes that have passed and are not taken
	retry  atomic.Int64 // when to try again, in nanoseconds since 1970

	mu    sync.Mutex // guards the fields below
	conns int64      // connections that hold bytes
	held  int64      // bytes that they hold
	all   int64      // bytes that are held while bytes are counted only; 0: each connection holds its own
}

// open has a connection hold size bytes and write n, if bytes are counted only.
func (c *counted) open(b *SiteBudget, size, n int64) bool {
	if !c.on.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held+size > heldParts*c.most.Load() {
		c.stop(b)
	}
	if c.all == 0 {
		return false
	}
	c.add(1, size)
	c.passed.Add(n)
	return true
}

// opened counts a connection that holds size bytes by itself.
func (c *counted) opened(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(1, size)
	if c.all > 0 {
		c.all += size
	}
}

func (c *counted) add(conns, held int64) { c.conns, c.held = c.conns+conns, c.held+held }

// release ends the hold of a connection, of which some bytes go back.
func (c *counted) release(b *SiteBudget, held, back int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(-1, -held)
	if c.all > 0 {
		c.passed.Add(held - back)
		return
	}
	b.limits.Release(held, back)
}

// setLimits sets the limits, after taking what has passed under those before.
func (c *counted) setLimits(b *SiteBudget, limits []queue.Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop(b)
	amount := int64(math.MaxInt64)
	for i := range limits {
		if limits[i].Spec == nil {
			amount = 0
			continue
		}
		amount = min(amount, limits[i].Spec.Amount, limits[i].Spec.AtOnce())
	}
	if !b.Budgeted() || len(limits) == 0 || amount < leastCounted {
		amount = 0
	}
	c.most.Store(amount / countedPart / allParts)
	c.retry.Store(0)
}

// CountedOnly implements upstream.ByteLimiter.
func (b *SiteBudget) CountedOnly() bool {
	c := &b.counted
	switch {
	case c.on.Load():
		return true
	case c.most.Load() == 0:
		return false
	}
	now := time.Now()
	return now.UnixNano() >= c.retry.Load() && c.settle(b, now)
}

// Pay implements upstream.ByteLimiter.
func (b *SiteBudget) Pay(n int) {
	c := &b.counted
	if most := c.most.Load(); most > 0 && c.passed.Add(int64(n)) >= most {
		c.settle(b, time.Now())
	}
}

// settle takes what has passed, and returns whether bytes are counted only from now on.
func (c *counted) settle(b *SiteBudget, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.touch()
	most := c.most.Load()
	if c.passed.Load() < most && c.on.Load() {
		return true // another has taken it
	}
	each := int64(maxUncounted)
	if b.owner.Tunnel {
		each = maxUncountedOfTunnel
	}
	on := most > 0 && c.held <= heldParts*most && c.conns*each <= most
	if more := allParts*most - c.held; on && c.all == 0 {
		got, _ := b.limits.Draw(nil, queue.Draw{Most: more + 1, Least: more + 1, Hold: more, Until: now})
		if on = got > more; on {
			c.all = c.held + more
		}
	}
	if n := c.passed.Load(); on && n > 0 {
		got, _ := b.limits.Draw(nil, queue.Draw{Most: n, Least: n, Until: now})
		c.passed.Add(-got)
		on = got == n
	}
	if !on {
		c.stop(b)
		c.retry.Store(now.Add(countedRetry).UnixNano())
	}
	c.on.Store(on)
	return on
}

// stop has every byte ask for credit, and takes what has passed from the bytes that were held for
// it.
func (c *counted) stop(b *SiteBudget) {
	c.on.Store(false)
	if c.all > 0 {
		free := c.all - c.held
		passed := min(c.passed.Load(), free)
		c.passed.Add(-passed)
		b.limits.Release(free, free-passed)
		c.all = 0
	}
}
