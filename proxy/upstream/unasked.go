package upstream

import "cmp"

// readUnasked is read for bytes that passed without having asked for credit.
func (c *meteredConn) readUnasked(n int) {
	c.read(n)
	if m := c.meter.Load(); m != nil && m.windowed != nil && n > 0 {
		m.windowed.Pay(n)
		if c.unmeasured.Add(int64(n)) >= c.measureAfter.Load() {
			c.holdUnread(m.windowed)
		}
	}
}

// wroteUnasked is wrote for bytes that passed without having asked for credit.
func (c *meteredConn) wroteUnasked(n int) {
	c.wrote(n)
	if m := c.meter.Load(); m != nil && m.windowed != nil && n > 0 {
		m.windowed.Pay(n)
	}
}

const (
	// maxReadUnasked is about the number of bytes that are read before they are counted, and
	// maxSpliceUnasked of those that the kernel moves.
	maxReadUnasked   = 64 << 10
	maxSpliceUnasked = 1 << 20
	// measuredParts: a receive buffer is measured again after 1/measuredParts of what is held
	// for it. Meanwhile the system cannot make it more than twice as large.
	measuredParts = 8
)

// holdUnread tells w how many bytes the connection may receive before they are counted, and
// the Windowed before it that it receives none under that. nil is none.
func (c *meteredConn) holdUnread(w Windowed) {
	size := 0
	if w != nil {
		size = maxReadUnasked + cmp.Or(2*c.arrival.receiveBuffer(), int(maxSystemReceiveBuffer()))
		if c.spliced.Load() {
			size += maxSpliceUnasked
		}
	}
	c.deadlines.mu.Lock()
	if c.deadlines.closing {
		size = 0
	}
	before, was := c.holder, c.held
	c.holder, c.held = w, size
	c.unmeasured.Store(0)
	c.measureAfter.Store(int64(size / measuredParts))
	c.deadlines.mu.Unlock()
	if before != nil && was != 0 {
		before.Hold(-was)
	}
	if w != nil && size != 0 {
		w.Hold(size)
	}
}

// holdSlices is called when the kernel begins to move bytes of the connection.
func (c *meteredConn) holdSlices() {
	if m := c.meter.Load(); !c.spliced.Swap(true) && m != nil {
		c.holdUnread(m.windowed)
	}
}
