package upstream

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// shards is how many locks the pool has. A request takes one twice, for as
// long as it takes to push or pop a pointer.
const shards = 64

// hostKey names an origin. A next hop that is sent requests in absolute form
// has the zero key: its connections serve every origin.
type hostKey struct {
	name   string
	port   uint16
	secure bool
}

// host is what is known of an origin as long as a connection to it exists. Its
// shard's lock guards it.
type host struct {
	key    hostKey
	shard  *shard
	open   int     // connections that are being dialed, used or kept
	idle   []*conn // HTTP/1, the oldest first; the newest is used first
	multi  []*conn // HTTP/2, in use or idle, that may take more streams
	plain  bool    // it chose HTTP/1 when it could have HTTP/2
	flight *flight // the dial that will tell what it speaks
}

// flight is a dial whose outcome others wait for, because one HTTP/2
// connection may serve them all.
type flight struct {
	done chan struct{}
	err  *Error // after done; nil also when its caller gave up
}

type shard struct {
	mu     sync.Mutex
	hosts  map[hostKey]*host
	oldest *conn // idle connections, by how long they have been
	newest *conn
	timer  *time.Timer   // set while there are idle connections that expire
	closed bool          // nothing may be kept any more, nor dialed
	gone   chan struct{} // closed when closed and without hosts

	_ [64]byte // the next shard's lock is another core's business
}

// pool holds connections that wait for a request, and counts the others.
type pool struct {
	perHost int
	total   int64
	expiry  time.Duration

	seed   maphash.Seed
	idle   atomic.Int64
	hand   atomic.Uint32 // the shard that gives next when there are too many
	shards [shards]shard
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
		p.shards[i].gone = make(chan struct{})
	}
}

func (p *pool) shard(key hostKey) *shard {
	return &p.shards[(maphash.String(p.seed, key.name)^uint64(key.port))%shards]
}

// offer is what take has for a request. With a conn it is that. With a wait it
// is to wait and ask again. Otherwise it is to dial for home, and to tell land
// or left; with lead set others wait for that.
type offer struct {
	conn *conn
	wait *flight
	home *host
	lead bool
}

// take finds a connection for a request, or leave to dial one. fresh refuses
// those that have idled; single those that are not for one request at a time.
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
		s.unlist(c)
		p.idle.Add(-1)
		return offer{conn: c}, true
	}
	if key.secure && !single {
		// The first that can take it, so that the others run dry and expire.
		for _, c := range h.multi {
			if !c.h2.cc.ReserveNewRequest() {
				continue
			}
			if c.h2.streams == 0 && c.h2.listed {
				c.h2.listed = false
				s.unlist(c)
				p.idle.Add(-1)
			}
			c.h2.streams++
			return offer{conn: c}, true
		}
		if h.flight != nil {
			return offer{wait: h.flight}, true
		}
		if !h.plain {
			h.flight = &flight{done: make(chan struct{})}
			o.lead = true
		}
	}
	h.open++
	o.home = h
	return o, true
}

// land says how a dial with lead ended; it is called once. A multi connection
// has its first stream reserved already.
func (p *pool) land(h *host, c *conn, err *Error) {
	s := h.shard
	s.mu.Lock()
	f := h.flight
	h.flight = nil
	switch {
	case c == nil:
		if err.Kind != Canceled {
			f.err = err
		}
	case c.h2 == nil:
		h.plain = true
	default:
		h.plain = false
		if !c.h2.dead {
			h.multi = append(h.multi, c)
		}
	}
	s.mu.Unlock()
	close(f.done)
}

// join makes an HTTP/2 connection that nobody waited for known.
func (p *pool) join(c *conn) {
	s := c.home.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	c.home.plain = false
	if !c.h2.dead {
		c.home.multi = append(c.home.multi, c)
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
	s.list(c, now)
	p.arm(s)
	s.mu.Unlock()
	if out != nil {
		out.close()
	}
	p.shrink()
}

// distrust closes the idle connections of c's host that have rested for as long
// as c had when it turned out to be stale, or who asks again might meet one after
// the other. It is called before c is closed.
func (p *pool) distrust(c *conn) {
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

// bound is how many idle connections to h are kept. A next hop stands for many hosts.
func (p *pool) bound(h *host) int {
	if h.key == (hostKey{}) {
		return int(min(p.total, 1<<20))
	}
	return p.perHost
}

// leave ends a request on an HTTP/2 connection.
func (p *pool) leave(c *conn) {
	if c.gauge != nil {
		c.gauge.hasAll()
	}
	s := c.home.shard
	now := time.Now()
	s.mu.Lock()
	c.h2.streams--
	if c.h2.streams > 0 {
		s.mu.Unlock()
		return
	}
	if c.h2.dead || s.closed || p.perHost < 0 || p.total < 0 || c.home.resting() >= p.perHost {
		c.h2.dead = true
		c.home.forget(c)
		s.mu.Unlock()
		c.close()
		return
	}
	c.h2.listed = true
	p.idle.Add(1)
	s.list(c, now)
	p.arm(s)
	s.mu.Unlock()
	p.shrink()
}

// retire has an HTTP/2 connection take no more streams. It is closed when those
// that it has have ended. alone says that there is but one.
func (p *pool) retire(c *conn) (alone bool) {
	s := c.home.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	c.h2.dead = true
	c.home.forget(c)
	return c.h2.streams <= 1
}

// bury takes an HTTP/2 connection out that will take no more streams.
func (p *pool) bury(c *conn) {
	s := c.home.shard
	s.mu.Lock()
	c.h2.dead = true
	c.home.forget(c)
	unused := c.h2.streams == 0
	if c.h2.listed {
		c.h2.listed = false
		s.unlist(c)
		p.idle.Add(-1)
	}
	s.mu.Unlock()
	if unused {
		c.close()
	}
}

// left says that a connection, or the attempt to dial one, is no more.
func (p *pool) left(h *host) {
	s := h.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	h.open--
	if h.open > 0 {
		return
	}
	delete(s.hosts, h.key)
	if s.closed && len(s.hosts) == 0 {
		close(s.gone)
	}
}

// shrink closes idle connections, the oldest of one shard after another, until
// there are as few as allowed.
func (p *pool) shrink() {
	for tries := 0; p.idle.Load() > p.total && tries < shards; tries++ {
		s := &p.shards[p.hand.Add(1)%shards]
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

// arm sees to it that the shard is swept when its oldest connection expires.
func (p *pool) arm(s *shard) {
	if p.expiry > 0 && s.timer == nil {
		s.timer = time.AfterFunc(p.expiry, func() { p.sweep(s, p.expiry) })
	}
}

// sweep closes what has idled for d.
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

// close refuses new requests, and waits until the last connection has gone.
func (p *pool) close() {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		if !s.closed {
			s.closed = true
			if len(s.hosts) == 0 {
				close(s.gone)
			}
		}
		s.mu.Unlock()
	}
	p.closeIdle()
	for i := range p.shards {
		<-p.shards[i].gone
	}
}

// list puts c at the young end of the idle connections.
func (s *shard) list(c *conn, now time.Time) {
	c.since, c.older = now, s.newest
	if s.newest != nil {
		s.newest.newer = c
	} else {
		s.oldest = c
	}
	s.newest = c
}

func (s *shard) unlist(c *conn) {
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

// drop takes an idle connection out, for its end.
func (s *shard) drop(c *conn) {
	s.unlist(c)
	if c.h2 != nil {
		c.h2.listed, c.h2.dead = false, true
	}
	c.home.forget(c)
}

// resting counts the idle HTTP/2 connections, of which there is seldom more than one.
func (h *host) resting() (n int) {
	for _, c := range h.multi {
		if c.h2.listed {
			n++
		}
	}
	return n
}

// forget takes c out of its host's lists. Among the idle it is seldom far from
// the start, because they stand by age.
func (h *host) forget(c *conn) {
	from := &h.idle
	if c.h2 != nil {
		from = &h.multi
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
