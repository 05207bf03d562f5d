package upstream

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// shards is the number of locks of the pool. A request takes one of them twice, for the
// time of a list operation.
const shards = 64

// hostKey names an origin. The zero key is a next hop that gets requests in absolute form:
// its connections serve every origin.
type hostKey struct {
	name   string
	port   uint16
	secure bool
}

// host is the state of an origin while a connection to it exists. Its shard's lock guards
// it.
type host struct {
	key       hostKey
	shard     *shard
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

type shard struct {
	mu     sync.Mutex
	hosts  map[hostKey]*host
	oldest *conn // idle connections, sorted by when they became idle
	newest *conn
	timer  *time.Timer   // set while idle connections can expire
	closed bool          // connections are neither kept nor dialed any more
	empty  chan struct{} // closed when the shard is closed and has no hosts

	_ [64]byte // keeps shards on different cache lines
}

// pool holds idle connections and counts the others. Safe for concurrent use.
type pool struct {
	perHost int
	total   int64
	expiry  time.Duration

	seed      maphash.Seed
	idle      atomic.Int64
	nextShard atomic.Uint32 // the shard that closes the next surplus connection
	shards    [shards]shard
}

func (p *pool) init(perHost, total int, expiry time.Duration) {
	p.seed = maphash.MakeSeed()
	p.perHost, p.total, p.expiry = perHost, int64(total), expiry
	if perHost == 0 {
		p.perHost = defaultIdlePerHost
	}
	if total == 0 {
		p.total = 1<<63 - 1
	}
	for i := range p.shards {
		p.shards[i].hosts = make(map[hostKey]*host)
		p.shards[i].empty = make(chan struct{})
	}
}

func (p *pool) shard(key hostKey) *shard {
	return &p.shards[(maphash.String(p.seed, key.name)^uint64(key.port))%shards]
}

// offer is the result of take. With conn, the request uses that connection. With dialing,
// it waits for that dial and asks again. Otherwise it dials for home and then calls
// dialEnded or connectionGone; if first is set, other requests wait for this dial.
type offer struct {
	conn    *conn
	dialing *pendingDial
	home    *host
	first   bool
}

// take finds a connection for a request, or lets the request dial. fresh excludes
// connections that have been idle; single excludes HTTP/2.
func (p *pool) take(key hostKey, fresh, single bool) (o offer, ok bool) {
	s := p.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return o, false
	}
	h := s.hosts[key]
	if h == nil {
		h = &host{key: key, shard: s}
		s.hosts[key] = h
	}
	if n := len(h.idle); n > 0 && !fresh {
		c := h.idle[n-1]
		h.idle[n-1] = nil
		h.idle = h.idle[:n-1]
		s.removeIdle(c)
		p.idle.Add(-1)
		return offer{conn: c}, true
	}
	if key.secure && !single {
		// The first connection with a free stream, so that the others become idle and
		// expire.
		for _, c := range h.http2 {
			if c.multiplexed.client.Reserve() != nil {
				continue
			}
			if c.multiplexed.streams == 0 && c.multiplexed.listed {
				c.multiplexed.listed = false
				s.removeIdle(c)
				p.idle.Add(-1)
			}
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
	o.home = h
	return o, true
}

// dialEnded reports the result of a dial whose offer had first set; it is called once. An
// HTTP/2 connection has its first stream reserved already.
func (p *pool) dialEnded(h *host, c *conn, err *Error) {
	s := h.shard
	s.mu.Lock()
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
	s.mu.Unlock()
	close(f.done)
}

// addHTTP2 adds an HTTP/2 connection whose dial no other request waited for.
func (p *pool) addHTTP2(c *conn) {
	s := c.home.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	c.home.http1Only = false
	if !c.multiplexed.dead {
		c.home.http2 = append(c.home.http2, c)
	}
}

// put keeps a connection for the next request, or closes it.
func (p *pool) put(c *conn) {
	h, s := c.home, c.home.shard
	now := time.Now()
	s.mu.Lock()
	if s.closed || p.perHost < 0 || p.total < 0 {
		s.mu.Unlock()
		c.close()
		return
	}
	var out *conn
	if bound := p.bound(h); len(h.idle) >= bound {
		out = h.idle[0]
		s.drop(out)
	} else {
		p.idle.Add(1)
	}
	h.idle = append(h.idle, c)
	s.addIdle(c, now)
	p.startSweepTimer(s)
	s.mu.Unlock()
	if out != nil {
		out.close()
	}
	p.shrink()
}

// closeOlderThan closes the idle connections of c's host that have been idle at least as
// long as c had when it turned out to be stale. Otherwise a retry could meet one stale
// connection after the other. It is called before c is closed.
func (p *pool) closeOlderThan(c *conn) {
	h, s := c.home, c.home.shard
	var out []*conn
	s.mu.Lock()
	for len(h.idle) > 0 && !h.idle[0].since.After(c.since) {
		out = append(out, h.idle[0])
		s.drop(h.idle[0])
	}
	s.mu.Unlock()
	p.idle.Add(-int64(len(out)))
	for _, one := range out {
		one.close()
	}
}

// bound returns the number of idle connections to h that are kept. A next hop stands for many hosts.
func (p *pool) bound(h *host) int {
	if h.key == (hostKey{}) {
		return int(min(p.total, 1<<20))
	}
	return p.perHost
}

// releaseStream ends a request on an HTTP/2 connection.
func (p *pool) releaseStream(c *conn) {
	if c.metered != nil {
		c.metered.requestComplete()
	}
	s := c.home.shard
	now := time.Now()
	s.mu.Lock()
	c.multiplexed.streams--
	if c.multiplexed.streams > 0 {
		s.mu.Unlock()
		return
	}
	if c.multiplexed.dead || s.closed || p.perHost < 0 || p.total < 0 || c.home.idleHTTP2() >= p.perHost {
		c.multiplexed.dead = true
		c.home.forget(c)
		s.mu.Unlock()
		c.close()
		return
	}
	c.multiplexed.listed = true
	p.idle.Add(1)
	s.addIdle(c, now)
	p.startSweepTimer(s)
	s.mu.Unlock()
	p.shrink()
}

// retire makes an HTTP/2 connection take no more streams. It is closed when its current
// streams have ended. alone tells that it has only one stream.
func (p *pool) retire(c *conn) (alone bool) {
	s := c.home.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	c.multiplexed.dead = true
	c.home.forget(c)
	return c.multiplexed.streams <= 1
}

// remove takes an HTTP/2 connection that takes no more streams out of the pool.
func (p *pool) remove(c *conn) {
	s := c.home.shard
	s.mu.Lock()
	c.multiplexed.dead = true
	c.home.forget(c)
	unused := c.multiplexed.streams == 0
	if c.multiplexed.listed {
		c.multiplexed.listed = false
		s.removeIdle(c)
		p.idle.Add(-1)
	}
	s.mu.Unlock()
	if unused {
		c.close()
	}
}

// connectionGone records that a connection has ended, or that a dial has failed.
func (p *pool) connectionGone(h *host) {
	s := h.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	h.open--
	if h.open > 0 {
		return
	}
	delete(s.hosts, h.key)
	if s.closed && len(s.hosts) == 0 {
		close(s.empty)
	}
}

// shrink closes idle connections, the oldest of one shard after another, until the total is
// within the limit.
func (p *pool) shrink() {
	for tries := 0; p.idle.Load() > p.total && tries < shards; tries++ {
		s := &p.shards[p.nextShard.Add(1)%shards]
		s.mu.Lock()
		c := s.oldest
		if c != nil {
			s.drop(c)
			p.idle.Add(-1)
			tries = 0
		}
		s.mu.Unlock()
		if c != nil {
			c.close()
		}
	}
}

// startSweepTimer sets the timer that sweeps the shard when its oldest connection expires.
func (p *pool) startSweepTimer(s *shard) {
	if p.expiry > 0 && s.timer == nil {
		s.timer = time.AfterFunc(p.expiry, func() { p.sweep(s, p.expiry) })
	}
}

// sweep closes connections that have been idle for d.
func (p *pool) sweep(s *shard, d time.Duration) {
	now := time.Now()
	var out []*conn
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	for c := s.oldest; c != nil && now.Sub(c.since) >= d; c = s.oldest {
		s.drop(c)
		out = append(out, c)
	}
	p.idle.Add(-int64(len(out)))
	if s.oldest != nil && p.expiry > 0 {
		s.timer = time.AfterFunc(p.expiry-now.Sub(s.oldest.since), func() { p.sweep(s, p.expiry) })
	}
	s.mu.Unlock()
	for _, c := range out {
		c.close()
	}
}

func (p *pool) closeIdle() {
	for i := range p.shards {
		p.sweep(&p.shards[i], 0)
	}
}

// close refuses new requests, and waits until the last connection has ended.
func (p *pool) close() {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		if !s.closed {
			s.closed = true
			if len(s.hosts) == 0 {
				close(s.empty)
			}
		}
		s.mu.Unlock()
	}
	p.closeIdle()
	for i := range p.shards {
		<-p.shards[i].empty
	}
}

// addIdle adds c as the newest idle connection.
func (s *shard) addIdle(c *conn, now time.Time) {
	c.since, c.older = now, s.newest
	if s.newest != nil {
		s.newest.newer = c
	} else {
		s.oldest = c
	}
	s.newest = c
}

func (s *shard) removeIdle(c *conn) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		s.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		s.newest = c.older
	}
	c.older, c.newer = nil, nil
}

// drop takes an idle connection out so that it can be closed.
func (s *shard) drop(c *conn) {
	s.removeIdle(c)
	if c.multiplexed != nil {
		c.multiplexed.listed, c.multiplexed.dead = false, true
	}
	c.home.forget(c)
}

// idleHTTP2 counts the idle HTTP/2 connections. There is seldom more than one.
func (h *host) idleHTTP2() (n int) {
	for _, c := range h.http2 {
		if c.multiplexed.listed {
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
	for i, other := range *from {
		if other == c {
			copy((*from)[i:], (*from)[i+1:])
			(*from)[len(*from)-1] = nil
			*from = (*from)[:len(*from)-1]
			return
		}
	}
}
