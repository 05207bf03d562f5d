package upstream

// Generous is a Limiter under which connections may have larger receive buffers, so
// far as that matters little against its limits. Only with those are they fast.
type Generous interface {
	Limiter
	// Slack is how much all connections together may receive beyond the limits. It
	// is asked before every read and write. Once it has changed, each asks for its
	// part anew.
	Slack() int64
	// Stretch lends a connection the largest of some sizes, in order, that leaves
	// something for others, or else the last if there is room for it. 0 is none.
	// back is called once, when the connection has ended or needs it no more.
	Stretch(sizes ...int64) (n int64, back func())
}

const (
	// leastWide is the smallest buffer that is larger than a narrow one.
	leastWide = 4 * narrowBuffer
	// mostWide is the largest that is asked for. One that is larger the system finds
	// by itself, as far as it goes.
	mostWide = 2 << 20
	// mostAtOnce is how much credit is asked for at once where the buffer is wide.
	mostAtOnce = 1 << 20
)

// stretch is what a connection may receive beyond the limits.
type stretch struct {
	of    Limiter // who has lent it
	slack int64   // its Slack then
	n     int64
	back  func()
}

// These two mark a connection that asks for another stretch, or wants none any more.
var stretching, unstretched = &stretch{}, &stretch{}

// end gives it back.
func (s *stretch) end() {
	if s != nil && s.back != nil {
		s.back()
	}
}

// receives is how much the system is asked to hold of a new connection, 0 if it is
// to say itself, and what was lent for that.
func (d *Dialer) receives(m Meter) (lent *stretch, size int) {
	l, ok := m.(Limiter)
	switch {
	case !ok, d.ReceiveBuffer < 0, !l.Budgeted():
		return nil, 0
	case d.ReceiveBuffer > 0:
		return nil, d.ReceiveBuffer
	}
	sizes := receiveSizes()
	if g, ok := l.(Generous); ok {
		lent = &stretch{of: l, slack: g.Slack()}
		lent.n, lent.back = g.Stretch(sizes...)
	}
	narrow := narrowBuffer
	if w, ok := l.(Windowed); ok {
		narrow = w.Buffer() / 2
	}
	switch {
	case lent == nil, lent.n == 0:
		return nil, narrow
	case lent.n == sizes[0]:
		return lent, 0
	}
	return lent, int(lent.n / 2) // Linux takes twice that
}

// fit has the receive buffer be narrow if who is asked now lends none of its size.
// Both directions may come at once. One of them asks, and the other goes on.
func (c *meteredConn) fit(m *metering) {
	was, slack := c.stretch.Load(), int64(0)
	if m.generous != nil && c.buffer == 0 {
		slack = m.generous.Slack()
	}
	switch {
	case was == stretching, was == unstretched:
		return
	case was != nil && was.of == m.limiter && was.slack == slack:
		return
	case !c.stretch.CompareAndSwap(was, stretching):
		return
	}
	was.end()
	next := &stretch{of: m.limiter, slack: slack}
	if slack > 0 {
		next.n, next.back = m.generous.Stretch(c.width)
	}
	if next.n == 0 {
		c.narrow(m.windowed)
	}
	if !c.stretch.CompareAndSwap(stretching, next) {
		next.end()
	}
}

// atOnce is how much credit may be asked for at once, and whether it may be for more
// than one read.
func (c *meteredConn) atOnce() (most int, wide bool) {
	s := c.stretch.Load()
	if s == nil || s.n == 0 {
		return mostAsked, false
	}
	return int(min(max(s.n, mostAsked), mostAtOnce)), true
}

// prepaid is credit for bytes that have come and are still to be read.
type prepaid struct {
	n  int
	to Limiter
}

// prepay keeps credit for the next reads.
func (c *meteredConn) prepay(l Limiter, n int) {
	if n <= 0 {
		return
	}
	c.mu.Lock()
	rest := prepaid{}
	switch {
	case c.leaving:
		rest = prepaid{n, l}
	case c.paid.to == l:
		c.paid.n += n
	default:
		rest, c.paid = c.paid, prepaid{n, l}
	}
	c.isPaid.Store(c.paid.n > 0)
	c.mu.Unlock()
	if rest.n > 0 {
		rest.to.Refund(rest.n)
	}
}

// spend is the credit that there is for a read of n bytes.
func (c *meteredConn) spend(l Limiter, n int) int {
	if !c.isPaid.Load() {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paid.to != l {
		return 0
	}
	n = min(n, c.paid.n)
	c.paid.n -= n
	c.isPaid.Store(c.paid.n > 0)
	return n
}

// repay gives back what was not read by those who will pay for it again.
func (c *meteredConn) repay() {
	if rest := c.unspent(); rest.n > 0 {
		rest.to.Refund(rest.n)
	}
}

// forgo is for what will never be read. It has come, so it counts.
func (c *meteredConn) forgo() {
	if rest := c.unspent(); rest.n > 0 {
		rest.to.Read(rest.n)
	}
}

// unspent takes all that is prepaid.
func (c *meteredConn) unspent() (rest prepaid) {
	if !c.isPaid.Load() {
		return rest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rest, c.paid = c.paid, prepaid{}
	c.isPaid.Store(false)
	return rest
}

// halves are receive buffers from the largest to the smallest that is worth it.
func halves(most int64) (sizes []int64) {
	for ; most >= leastWide; most /= 2 {
		sizes = append(sizes, most)
	}
	return sizes
}
