package upstream

import (
	"cmp"
	"container/list"
	"math"
	"slices"
	"sync"
	"time"
)

// hostKey names an origin, by its host without brackets. The zero key is a next hop that gets requests in absolute form:
// its connections serve every origin.
type hostKey struct {
	name   string
	port   uint16
	secure bool
}

// host is the state of an origin while a connection to it exists. The pool's lock guards it.
type host struct {
	key       hostKey
	open      int          // connections that are being dialed, in use or idle
	idle      []*conn      // HTTP/1, oldest first; the newest is used first
	http2     []*conn      // HTTP/2, in use or idle, that may take more streams
	http1Only bool         // it chose HTTP/1 although HTTP/2 was offered
	dialing   *pendingDial // the dial that will show which protocol it speaks
}

// pendingDial is a dial that other requests wait for, because one HTTP/2 connection may
// serve them all.
type pendingDial struct {
	done chan struct{}
	err  *Error // valid after done; nil also when the dialing caller canceled
}

// pool holds idle connections and counts the others. Safe for concurrent use. A request takes the
// lock twice, for the time of a list operation.
type pool struct {
	perHost int
	total   int
	expiry  time.Duration

	mu     sync.Mutex
	hosts  map[hostKey]*host
	single map[hostKey]bool // hosts that take HTTP/1 alone, as they have said: at most mostSingle
	idle   list.List        // idle connections, the oldest first
	timer  *time.Timer      // set while idle connections can expire
	closed bool             // connections are neither kept nor dialed any more
	empty  chan struct{}    // closed when the pool is closed and has no hosts
}

// mostSingle bounds the hosts of which it is remembered that they take HTTP/1 alone.
const mostSingle = 1000

func (p *pool) init(perHost, total int, expiry time.Duration) {
	p.perHost, p.total, p.expiry = cmp.Or(perHost, defaultIdlePerHost), cmp.Or(total, math.MaxInt), expiry
	p.hosts, p.single, p.empty = make(map[hostKey]*host), map[hostKey]bool{}, make(chan struct{})
}

// offer is the result of take. With conn, the request uses that connection. With dialing,
// it waits for that dial and asks again. Otherwise it dials for home and then calls
// dialEnded or connectionGone; if first is set, other requests wait for this dial. With single, it offers no HTTP/2.
type offer struct {
	conn    *conn
	dialing *pendingDial
	home    *host
	first   bool
	single  bool
}

// take finds a connection for a request, or lets the request dial. fresh excludes
// connections that have been idle; single excludes HTTP/2.
func (p *pool) take(key hostKey, fresh, single bool) (o offer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return o, false
	}
	h := p.hosts[key]
	if h == nil {
		h = &host{key: key}
		p.hosts[key] = h
	}
	if n := len(h.idle); n > 0 && !fresh {
		c := h.idle[n-1]
		h.idle = slices.Delete(h.idle, n-1, n)
		p.removeIdle(c)
		return offer{conn: c}, true
	}
	if single = single || p.single[key]; key.secure && !single {
		// The first connection with a free stream, so that the others become idle and
		// expire.
		for _, c := range h.http2 {
			if c.multiplexed.client.Reserve() != nil {
				continue
			}
			p.removeIdle(c)
			c.multiplexed.streams++
			return offer{conn: c}, true
		}
		if h.dialing != nil {
			return offer{dialing: h.dialing}, true
		}
		if !h.http1Only {
			h.dialing = &pendingDial{done: make(chan struct{})}
			o.first = true
		}
	}
	h.open++
	o.home, o.single = h, single
	return o, true
}

// dialEnded reports the result of a dial whose offer had first set; it is called once. An
// HTTP/2 connection has its first stream reserved already.
func (p *pool) dialEnded(h *host, c *conn, err *Error) {
	p.mu.Lock()
	f := h.dialing
	h.dialing = nil
	switch {
	case c == nil:
		if err.Kind != Canceled {
			f.err = err
		}
	case c.multiplexed == nil:
		h.http1Only = true
	default:
		h.http1Only = false
		if !c.multiplexed.dead {
			h.http2 = append(h.http2, c)
		}
	}
	p.mu.Unlock()
	close(f.done)
}

// addHTTP2 adds an HTTP/2 connection whose dial no other request waited for.
func (p *pool) addHTTP2(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.home.http1Only = false
	if !c.multiplexed.dead {
		c.home.http2 = append(c.home.http2, c)
	}
}

// put keeps a connection for the next request, or closes it.
func (p *pool) put(c *conn) {
	h := c.home
	p.mu.Lock()
	if p.closed || p.perHost < 0 || p.total < 0 {
		p.mu.Unlock()
		c.close()
		return
	}
	var out *conn
	if len(h.idle) >= p.bound(h) {
		out = p.drop(h.idle[0])
	}
	h.idle = append(h.idle, c)
	p.addIdle(c, out)
}

// closeOlderThan closes the idle connections of c's host that have been idle at least as
// long as c had when it turned out to be stale. Otherwise a retry could meet one stale
// connection after the other. It is called before c is closed.
func (p *pool) closeOlderThan(c *conn) {
	var out []*conn
	p.mu.Lock()
	for h := c.home; len(h.idle) > 0 && !h.idle[0].since.After(c.since); {
		out = append(out, p.drop(h.idle[0]))
	}
	p.mu.Unlock()
	for _, one := range out {
		one.close()
	}
}

// bound returns the number of idle connections to h that are kept. A next hop stands for many hosts.
func (p *pool) bound(h *host) int {
	if h.key == (hostKey{}) {
		return min(p.total, 1<<20)
	}
	return p.perHost
}

// releaseStream ends a request on an HTTP/2 connection.
func (p *pool) releaseStream(c *conn) {
	if c.metered != nil {
		c.metered.requestComplete()
	}
	p.mu.Lock()
	c.multiplexed.streams--
	if c.multiplexed.streams > 0 {
		p.mu.Unlock()
		return
	}
	if c.multiplexed.dead || p.closed || p.perHost < 0 || p.total < 0 || c.home.idleHTTP2() >= p.perHost {
		p.drop(c)
		p.mu.Unlock()
		c.close()
		return
	}
	p.addIdle(c, nil)
}

// retire makes an HTTP/2 connection take no more streams. It is closed when its current
// streams have ended. alone tells that it has only one stream.
func (p *pool) retire(c *conn) (alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop(c).multiplexed.streams <= 1
}

// onlyHTTP1 has no further requests go to c's host by HTTP/2. The connection c takes no more streams.
func (p *pool) onlyHTTP1(c *conn) {
	p.retire(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.single) >= mostSingle {
		clear(p.single)
	}
	p.single[c.home.key] = true
}

// remove takes an HTTP/2 connection that takes no more streams out of the pool.
func (p *pool) remove(c *conn) {
	p.mu.Lock()
	unused := p.drop(c).multiplexed.streams == 0
	p.mu.Unlock()
	if unused {
		c.close()
	}
}

// connectionGone records that a connection has ended, or that a dial has failed.
func (p *pool) connectionGone(h *host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.open--
	if h.open > 0 {
		return
	}
	delete(p.hosts, h.key)
	if p.closed && len(p.hosts) == 0 {
		close(p.empty)
	}
}

// sweep closes connections that have been idle for d.
func (p *pool) sweep(d time.Duration) {
	now := time.Now()
	var out []*conn
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	for c := p.oldest(); c != nil && now.Sub(c.since) >= d; c = p.oldest() {
		out = append(out, p.drop(c))
	}
	if c := p.oldest(); c != nil && p.expiry > 0 {
		p.timer = time.AfterFunc(p.expiry-now.Sub(c.since), func() { p.sweep(p.expiry) })
	}
	p.mu.Unlock()
	for _, c := range out {
		c.close()
	}
}

// close refuses new requests, and waits until the last connection has ended.
func (p *pool) close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		if len(p.hosts) == 0 {
			close(p.empty)
		}
	}
	p.mu.Unlock()
	p.sweep(0)
	<-p.empty
}

// addIdle adds c as the newest idle connection, unlocks the pool, and closes out, which may be nil, or the oldest
// connection that is too many.
func (p *pool) addIdle(c, out *conn) {
	c.since, c.place = time.Now(), p.idle.PushBack(c)
	if p.idle.Len() > p.total {
		out = p.drop(p.oldest())
	}
	if p.expiry > 0 && p.timer == nil {
		p.timer = time.AfterFunc(p.expiry, func() { p.sweep(p.expiry) })
	}
	p.mu.Unlock()
	if out != nil {
		out.close()
	}
}

// oldest returns the connection that has been idle for longest, nil if there is none.
func (p *pool) oldest() *conn {
	if first := p.idle.Front(); first != nil {
		return first.Value.(*conn)
	}
	return nil
}

// removeIdle takes a connection out of the list of those that are idle, if it is there.
func (p *pool) removeIdle(c *conn) {
	if c.place != nil {
		p.idle.Remove(c.place)
		c.place = nil
	}
}

// drop takes a connection out, so that no other request gets it, and returns it.
func (p *pool) drop(c *conn) *conn {
	p.removeIdle(c)
	if c.multiplexed != nil {
		c.multiplexed.dead = true
	}
	c.home.forget(c)
	return c
}

// idleHTTP2 counts the idle HTTP/2 connections. There is seldom more than one.
func (h *host) idleHTTP2() (n int) {
	for _, c := range h.http2 {
		if c.place != nil {
			n++
		}
	}
	return n
}

// forget removes c from its host's lists. Idle connections are sorted by age, so c is
// seldom far from the start.
func (h *host) forget(c *conn) {
	from := &h.idle
	if c.multiplexed != nil {
		from = &h.http2
	}
	if i := slices.Index(*from, c); i >= 0 {
		*from = slices.Delete(*from, i, i+1)
	}
}
