package upstream

//lint:file-ignore SA1019 what net/http has in its place does not tell which requests may be sent again

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

const (
	// streamBuffer bounds what lies here of a body that its reader is slow to
	// take. The connection as a whole has no such bound, or one slow reader
	// would stop the others.
	streamBuffer = 1 << 20

	pingAfter = 30 * time.Second // of silence
	pingWait  = 15 * time.Second

	// settleWait is how long others wait for an origin to say how many streams
	// a new connection takes.
	settleWait = 10 * time.Second
)

// multi is what an HTTP/2 connection has beside a conn.
type multi struct {
	cc   *http2.ClientConn
	nc   *settling
	lead bool // a flight ends when it settles

	used   atomic.Bool // has been asked something
	settle sync.Once
	timer  *time.Timer // settles it at last
	ping   *patience   // asks whether a silent origin still lives

	// The shard's lock guards these.
	streams int  // in use
	listed  bool // among the idle connections
	dead    bool // takes no more streams
}

func (t *Transport) initHTTP2() {
	below := &http.Transport{
		MaxResponseHeaderBytes: int64(t.headerBytes()),
		DisableCompression:     true,
		// No pings and no bound for the answer's head: the package does not know
		// when a byte limit holds the connection still. See ping and exchange.await.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamBuffer,
			WriteByteTimeout:          t.StallTimeout,
		},
	}
	h2, err := http2.ConfigureTransports(below)
	if err != nil { // below is new, so it has no HTTP/2 yet
		panic(err)
	}
	h2.ConnPool = (*connPool2)(t)
	t.h2 = h2
}

// connPool2 is the Transport as the http2 package sees its pool. Which
// connection a request goes to has been decided before; what the package is
// told apart from that is how it lets us know that a request is safe to repeat.
type connPool2 Transport

// GetClientConn is called again for a request that is to be sent again.
func (p *connPool2) GetClientConn(req *http.Request, _ string) (*http2.ClientConn, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok || x.given {
		return nil, errAgain
	}
	x.given = true
	return x.c.h2.cc, nil
}

// MarkDead is called when a connection ends or was told to.
func (p *connPool2) MarkDead(cc *http2.ClientConn) {
	t := (*Transport)(p)
	if c, ok := t.byConn2.LoadAndDelete(cc); ok {
		t.pool.bury(c.(*conn))
	}
}

var errUnusable = errors.New("a new connection takes no request")

// newConn2 speaks HTTP/2 on tc. The connection has one stream reserved, and
// becomes known to others when the origin's settings have come.
func (t *Transport) newConn2(ctx context.Context, home *host, tc *tls.Conn, lead bool) (*conn, error) {
	c := &conn{t: t, home: home, nc: tc, raw: tc.NetConn(), gauge: gauge(tc), h2: &multi{lead: lead, streams: 1}}
	c.h2.ping = &patience{conn: c.gauge, do: c.ping}
	nc := &settling{Conn: tc, c: c, frames: newFrameWatch(time.Now)}
	if c.gauge != nil {
		c.gauge.keep()
	}
	c.h2.nc = nc
	if c.budgeted() {
		// What is said first may have to wait for credit.
		stop := context.AfterFunc(ctx, c.abortGauge)
		defer stop()
	}
	cc, err := t.h2.NewClientConn(nc)
	if err != nil {
		return nil, err
	}
	c.h2.cc = cc
	t.byConn2.Store(cc, c)
	if !cc.ReserveNewRequest() {
		t.byConn2.Delete(cc)
		cc.Close()
		return nil, errUnusable
	}
	return c, nil
}

// watch lets c settle. It is called when nothing can fail any more.
func (c *conn) watch() {
	c.h2.timer = time.AfterFunc(settleWait, c.settled)
	nc := c.h2.nc
	nc.ready.Store(true)
	look := func() {
		if nc.ended.Load() || c.h2.cc.State().MaxConcurrentStreams != 0 {
			c.settled()
		}
	}
	if c.budgeted() {
		go look() // State waits for what is being said, and so for credit
	} else {
		look()
	}
}

// settled makes c known to others, once.
func (c *conn) settled() {
	c.h2.settle.Do(func() {
		c.h2.timer.Stop()
		if c.h2.lead {
			c.t.pool.land(c.home, c, nil)
		} else {
			c.t.pool.join(c)
		}
	})
}

// settling is the connection as the http2 package sees it. From its asking for
// more bytes it can be told that it has taken in those before.
type settling struct {
	*tls.Conn
	c      *conn
	frames *frameWatch
	ready  atomic.Bool // c may settle
	ended  atomic.Bool
	done   bool // of the reading goroutine
}

func (s *settling) Read(p []byte) (int, error) {
	if !s.done && s.ready.Load() && s.c.h2.cc.State().MaxConcurrentStreams != 0 {
		s.done = true
		s.c.settled()
	}
	s.c.h2.ping.start(pingAfter)
	n, err := s.Conn.Read(p)
	if no := s.frames.read(p[:n]); no != nil {
		n, err = 0, no
	}
	if err != nil {
		s.c.h2.ping.stop()
		s.ended.Store(true)
		if !s.done && s.ready.Load() {
			s.done = true
			s.c.settled() // it ends at once; who waits for it shall not
		}
	}
	return n, err
}

func (s *settling) Write(p []byte) (int, error) {
	s.frames.wrote(p)
	return s.Conn.Write(p)
}

// Close does not wait for a peer that takes no goodbye.
func (s *settling) Close() error {
	timer := time.AfterFunc(goodbye, func() { s.Conn.NetConn().Close() })
	defer timer.Stop()
	return closeAtOnce(s.Conn)
}

// ping closes a connection whose origin has been silent, and stays so when it
// is asked. Whatever it answers is read, and lets the time begin anew.
func (c *conn) ping() {
	if !c.h2.nc.ready.Load() {
		c.h2.ping.start(pingAfter)
		return
	}
	ctx, cancel := withPatience(context.Background(), c.gauge, pingWait)
	defer cancel()
	if c.h2.cc.Ping(ctx) != nil {
		c.h2.cc.Close()
	}
}

const goodbye = 250 * time.Millisecond

var _ net.Conn = (*settling)(nil)
