package upstream

import "time"

// Windowed is a Limiter under which what a connection may receive is paid for before
// it is asked for: what lies in the system's buffers has been sent.
type Windowed interface {
	Limiter
	// Window is the number of the window that is going on. What was paid for in one
	// counts for nothing in the next.
	Window() int64
	// Open is Credit for what may come when something is asked for on a connection: at
	// least so much, unless the limits never give that.
	Open(done <-chan struct{}, n, least int) (granted int, err error)
	// Refill is the same for what is to be read, and what may come in its place. What
	// has stood still for long may get less, and with some patience nothing after that.
	Refill(done <-chan struct{}, n, least int, patience time.Duration) (granted int, err error)
	// Buffer is how much the system may take of a connection before anybody reads it.
	Buffer() int
}

const (
	// settles is after how long without credit the peer knows how much room there is.
	settles = 100 * time.Millisecond
	// hushed is after how long a tunnel in which nothing moves waits for nothing.
	hushed = time.Second
	// mostAhead is how much of what is written first is paid for together with the room.
	mostAhead = 4 << 10
	// leastRead is how much is read at once at least, if it is there.
	leastRead = 1 << 10
)

// atHand is for who takes the credit that is there and does not wait.
var atHand = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// receiving is the room of a connection, guarded by its lock.
type receiving struct {
	room
	to       Windowed // whose credit it is; nil: nobody's
	tells    bool     // the system says what the peer was promised
	kept     bool     // a Transport says when something is asked for, and when all has come
	requests int      // on it, if it is
	moved    time.Time
	hush     *time.Timer
}

// receive has the room be paid for, of a buffer of that size.
func (c *meteredConn) receive(size int) {
	promised := c.arrival.promised()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receiving.size, c.receiving.tells = size, promised > 0
	c.receives.Store(true)
}

// windowed is who is paid for the room; nil when nobody is.
func (c *meteredConn) windowed() Windowed {
	if m := c.meter.Load(); m != nil && c.receives.Load() {
		return m.windowed
	}
	return nil
}

// look is under the lock. It gives back what was paid to somebody else.
func (c *meteredConn) look(w Windowed, have int) (back int, to Windowed) {
	r := &c.receiving
	if r.to != w {
		next := toAsk
		if r.kept && r.state == asksNothing {
			next = asksNothing
		}
		back, to = r.rest(next), r.to
		r.to, r.window, r.unread, r.paid = w, w.Window(), have, 0
	}
	r.look(w.Window(), have)
	return back, to
}

// heard does something when it has looked.
func (c *meteredConn) heard(w Windowed, do func(r *receiving)) {
	have := c.arrival.have()
	c.mu.Lock()
	back, to := c.look(w, have)
	do(&c.receiving)
	c.mu.Unlock()
	if back > 0 && to != nil {
		to.Refund(back)
	}
}

// creditOut is credit for writing. What asks for something needs credit for what may
// come as well. Who finds no more takes from that: it does not wait for an answer yet.
func (c *meteredConn) creditOut(l Limiter, n int) (granted int, err error) {
	w := c.windowed()
	if w == nil {
		return c.credit(&c.out, l, n)
	}
	need, ahead := 0, min(n, mostAhead)
	c.heard(w, func(r *receiving) {
		need, r.moved = r.toWrite(), time.Now()
	})
	if need == 0 {
		if got, err := l.Credit(atHand, n); err == nil {
			return got, nil
		}
		c.heard(w, func(r *receiving) { granted = r.borrow(n) })
		if granted > 0 {
			return granted, nil
		}
		return c.credit(&c.out, l, n)
	}
	got, err := c.credit(&c.out, from{w, w.Open, need + 1}, need+ahead)
	if err != nil {
		return 0, err
	}
	c.heard(w, func(r *receiving) {
		granted = r.asks(got, n)
		c.await(r)
	})
	return granted, nil
}

// from is a Limiter of which a part of what is asked for is needed at once.
type from struct {
	Windowed
	take  func(done <-chan struct{}, n, least int) (int, error)
	least int
}

func (f from) Credit(done <-chan struct{}, n int) (int, error) { return f.take(done, n, f.least) }

// creditIn is credit for reading n bytes of those that are there, and for what may come
// in their place.
func (c *meteredConn) creditIn(l Limiter, n int) (granted int, err error) {
	w := c.windowed()
	if w == nil {
		return c.credit(&c.in, l, n)
	}
	for {
		need, least, more := 0, 0, false
		c.heard(w, func(r *receiving) {
			need, least, more, r.moved = r.toRead(n), r.toRead(min(n, leastRead)), r.paid > 0, time.Now()
		})
		patience := time.Duration(0)
		if more {
			patience = settles
		}
		got, err := c.credit(&c.in, from{w, func(done <-chan struct{}, n, least int) (int, error) {
			return w.Refill(done, n, least, patience)
		}, least}, need)
		if err != nil {
			return 0, err
		}
		if got == 0 && patience > 0 {
			c.settle(w)
			continue
		}
		c.heard(w, func(r *receiving) {
			r.paid += got
			granted = r.readable(n)
			if got < least { // that is all there will be for long
				granted = min(n, got)
			}
		})
		if granted > 0 {
			return granted, nil
		}
	}
}

// took says that of n bytes for which there was credit, so many were read.
func (c *meteredConn) took(n, got int) {
	if c.windowed() == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.receiving
	r.unread = max(r.unread-got, 0)
	r.paid -= n - got
}

// settle gives back what was paid for more room than there is: how much the system
// takes depends on the sizes in which it comes.
func (c *meteredConn) settle(w Windowed) {
	back := 0
	c.heard(w, func(r *receiving) {
		promised := r.size - r.unread
		if r.tells {
			promised = c.arrival.promised()
		}
		if r.unread > 0 {
			back = r.surplus(promised)
		}
	})
	if back > 0 {
		w.Refund(back)
	}
}

// await has a tunnel rest when nothing has moved for a while. The lock is held.
func (c *meteredConn) await(r *receiving) {
	switch {
	case r.kept || c.leaving:
	case r.hush == nil:
		r.hush = time.AfterFunc(hushed, c.rests)
	default:
		r.hush.Reset(hushed)
	}
}

func (c *meteredConn) rests() {
	w := c.windowed()
	if w == nil {
		return
	}
	back := 0
	c.heard(w, func(r *receiving) {
		switch still := time.Since(r.moved); {
		case r.kept || c.leaving || r.state != hasAsked:
		case still < hushed:
			r.hush.Reset(hushed - still)
		case r.unread > 0 || c.pauses > 0:
			r.hush.Reset(hushed)
		default:
			back = r.rest(toAsk)
		}
	})
	if back > 0 {
		w.Refund(back)
	}
}

// keep says that a Transport has the connection, for a request.
func (c *meteredConn) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receiving.kept, c.receiving.requests = true, 1
}

// asksNext says that another request follows on it.
func (c *meteredConn) asksNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.receiving
	if r.requests++; r.state == asksNothing {
		r.state = toAsk
	}
}

// hasAll says that all has come that a request asked for. What was paid for more goes
// back after the last one.
func (c *meteredConn) hasAll() {
	c.stopReceiving(func(r *receiving) bool {
		r.requests--
		return r.requests == 0
	})
}

// endReceiving is for a connection that is about to be closed.
func (c *meteredConn) endReceiving() {
	c.stopReceiving(func(r *receiving) bool {
		if r.hush != nil {
			r.hush.Stop()
		}
		return true
	})
}

// stopReceiving gives back what was paid for and did not come, if that is the end.
func (c *meteredConn) stopReceiving(end func(r *receiving) bool) {
	have := 0
	if c.receives.Load() {
		have = c.arrival.have()
	}
	c.mu.Lock()
	r, back := &c.receiving, 0
	to := r.to
	switch over := end(r); {
	case over && to == nil:
		r.state = asksNothing
	case over:
		r.look(to.Window(), have)
		back = r.rest(asksNothing)
	}
	c.mu.Unlock()
	if back > 0 {
		to.Refund(back)
	}
}

// switches says that the connection is a tunnel from now on.
func (c *meteredConn) switches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.receiving
	if r.kept = false; r.state == hasAsked {
		c.await(r)
	}
}
