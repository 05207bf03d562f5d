package upstream

const (
	// maxOpenWrite bounds the first write on a connection that has to take its hold.
	maxOpenWrite = 4 << 10
	// growingParts is the number of times that a connection holds the present size of its receive
	// buffer, if the system may make that larger.
	growingParts = 4
	// maxSpliceUnasked bounds the bytes that the kernel moves before they are counted.
	maxSpliceUnasked = 128 << 10
)

// hold has the bytes of a limit that a connection holds. It is never changed.
type hold struct {
	of   ByteLimiter
	size int // bytes
}

// use tells who uses a connection. pausableDeadlines.mu guards it.
type use struct {
	requests int  // without a complete answer
	reading  bool // a read is running that was paid for
	hasRead  bool // there was such a read
	closed   bool // nothing is held any more
}

// holding is the ByteLimiter of whose bytes the receive buffer is held; nil if there is none.
func (c *meteredConn) holding() ByteLimiter {
	if m := c.meter.Load(); m != nil && c.room.Load() > 0 {
		return m.limiter
	}
	return nil
}

func (c *meteredConn) holds(w ByteLimiter) bool {
	h := c.hold.Load()
	return h != nil && h.of == w
}

// creditOut gets credit for writing. The first write takes what the connection holds.
func (c *meteredConn) creditOut(l ByteLimiter, n int) (granted int, err error) {
	w, held := c.holding(), 0
	if w == nil || c.holds(w) {
		return c.creditHeld(l, &c.deadlines.out, n)
	}
	// A buffer that the system makes larger by itself is not yet as large as it may become.
	size := min(int(c.room.Load()), growingParts*c.socket.receiveBuffer())
	granted, err = c.credit(&c.deadlines.out, func(done <-chan struct{}) (granted int, err error) {
		granted, held, err = w.Open(done, &c.deadlines.out.heldUp, size, min(n, maxOpenWrite))
		return granted, err
	})
	if held > 0 {
		c.startHold(&hold{w, held})
	}
	return granted, err
}

// creditHeld gets credit for n bytes of one direction. While it waits, what has arrived is not held
// of the next window.
func (c *meteredConn) creditHeld(l ByteLimiter, d *pausableDeadline, n int) (granted int, err error) {
	if w := c.holding(); w == nil || !c.holds(w) {
		return c.credit(d, func(done <-chan struct{}) (int, error) { return l.Credit(done, &d.heldUp, n, nil) })
	}
	defer c.looks.CompareAndSwap(d, nil)
	return c.credit(d, func(done <-chan struct{}) (int, error) {
		return l.Credit(done, &d.heldUp, n, func() (unread, spare int64) {
			if c.looks.CompareAndSwap(nil, d) || c.looks.Load() == d {
				return c.arrivedOfHold(d)
			}
			return 0, 0 // the other direction waits, too
		})
	})
}

// arrivedOfHold returns how much of what the connection holds has arrived, and how much cannot
// arrive before the next read: the peer knows of less space.
func (c *meteredConn) arrivedOfHold(d *pausableDeadline) (unread, spare int64) {
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	h := c.hold.Load()
	if h == nil {
		return 0, 0
	}
	n := int64(min(c.socket.unread(), h.size))
	spare = max(int64(h.size-c.socket.peerWindow())-n, 0)
	if d == &c.deadlines.out && !c.use.hasRead {
		return n + spare, 0 // a write makes no space
	}
	return n, spare
}

// startHold replaces what the connection holds.
func (c *meteredConn) startHold(h *hold) {
	c.deadlines.mu.Lock()
	back := h
	if !c.use.closed {
		back = c.hold.Swap(h)
	}
	c.deadlines.mu.Unlock()
	back.release(0)
}

// release ends a hold of which some bytes have arrived.
func (h *hold) release(arrived int) {
	if h != nil {
		h.of.Release(h.size, h.size-arrived)
	}
}

// endHold gives back what is held and has not arrived. When the connection is closed, what has
// arrived and will not be read is counted, unless a read is running, whose end does it.
func (c *meteredConn) endHold(closes bool) {
	c.deadlines.mu.Lock()
	c.use.closed = c.use.closed || closes
	if closes && c.use.reading {
		c.deadlines.mu.Unlock()
		return
	}
	h, arrived := c.hold.Swap(nil), 0
	if h != nil && closes {
		arrived = min(c.socket.unread(), h.size)
	}
	c.deadlines.mu.Unlock()
	h.release(arrived)
	c.read(arrived)
}

// startRead begins a read that was paid for, unless the connection is closed.
func (c *meteredConn) startRead() bool {
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	c.use.reading, c.use.hasRead = !c.use.closed, true
	return c.use.reading
}

func (c *meteredConn) endRead() {
	c.deadlines.mu.Lock()
	c.use.reading = false
	closed := c.use.closed
	c.deadlines.mu.Unlock()
	if closed {
		c.endHold(true)
	}
}

// startRequest records that a request uses the connection.
func (c *meteredConn) startRequest() {
	c.deadlines.mu.Lock()
	defer c.deadlines.mu.Unlock()
	c.use.requests++
}

// requestComplete records that the answer of a request is complete. An idle connection holds
// nothing.
func (c *meteredConn) requestComplete() {
	c.deadlines.mu.Lock()
	c.use.requests--
	idle := c.use.requests <= 0
	c.deadlines.mu.Unlock()
	if idle {
		c.endHold(false)
	}
}

// makeRoom gives back what an idle tunnel holds, if others wait for it. Its next write takes it again.
func (c *meteredConn) makeRoom() {
	if w := c.holding(); w != nil && c.holds(w) && w.Crowded() {
		c.endHold(false)
	}
}

// readUnasked is read for bytes that passed without having asked for credit.
func (c *meteredConn) readUnasked(n int) {
	c.read(n)
	c.pay(n)
}

// wroteUnasked counts bytes written that passed without having asked for credit.
func (c *meteredConn) wroteUnasked(n int) {
	if m := c.meter.Load(); m != nil && n > 0 {
		m.Wrote(n)
	}
	c.pay(n)
}

func (c *meteredConn) pay(n int) {
	if m := c.meter.Load(); m != nil && m.limiter != nil && n > 0 {
		m.limiter.Pay(n)
	}
}
