package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// streamBuffer bounds the buffered bytes of a body whose reader is slow. The connection
	// as a whole has no such bound: one slow reader would block the others.
	streamBuffer = 1 << 20

	pingAfter = 30 * time.Second // of silence
	pingWait  = 15 * time.Second
	pingSlack = 500 * time.Millisecond // how much later than pingAfter a ping may be sent

	// settingsTimeout bounds the time for which other requests wait for an origin to announce the
	// number of streams of a new connection.
	settingsTimeout = 10 * time.Second
)

// http2State is the state of an HTTP/2 connection beside its conn.
type http2State struct {
	client   *http.ClientConn
	netConn  *http2Conn
	endsDial bool // the pending dial of the host ends when the connection is published

	used        atomic.Bool // a request was sent on it
	publishOnce sync.Once
	timer       *time.Timer    // publishes the connection after settingsTimeout
	ping        *pausableTimer // checks whether a silent origin is still alive

	// The shard's lock guards the fields below.
	streams int  // streams in use
	listed  bool // it is in the list of idle connections
	dead    bool // it takes no more streams
}

const alpnHTTP2 = "h2"

// initHTTP2 prepares net/http's HTTP/2 for connections dialed by this package.
// NewClientConn takes each of them as a connection with HTTP/2 and without TLS: then
// net/http negotiates no protocol and accepts any net.Conn. Such a connection never retries
// a request.
func (t *Transport) initHTTP2() {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	t.h2 = &http.Transport{
		DialContext:            dialed,
		Protocols:              &only,
		MaxResponseHeaderBytes: int64(t.headerBytes()),
		DisableCompression:     true,
		// No pings and no deadlines: net/http does not know when a byte limit pauses the
		// connection. See ping, http2Conn.Write and exchange.await.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: streamBuffer},
	}
}

// withoutHTTP2 tells whether GODEBUG disables net/http's HTTP/2.
var withoutHTTP2 = sync.OnceValue(func() bool {
	return strings.Contains(","+os.Getenv("GODEBUG")+",", ",http2client=0,")
})

type dialedKey struct{}

// dialed is the dial function of the http.Transport: it returns the connection in the
// context.
func dialed(ctx context.Context, _, _ string) (net.Conn, error) {
	nc, ok := ctx.Value(dialedKey{}).(*http2Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return nc, nil
}

// newConn2 starts HTTP/2 on tc. The connection has one stream reserved. Other requests may
// use it when the origin's settings have arrived.
func (t *Transport) newConn2(ctx context.Context, home *host, tc *tls.Conn, lead bool) (*conn, error) {
	c := &conn{t: t, home: home, nc: tc, raw: tc.NetConn(), metered: meteredConnOf(tc), multiplexed: &http2State{endsDial: lead, streams: 1}}
	c.multiplexed.ping = &pausableTimer{conn: c.metered, onExpire: c.ping}
	nc := &http2Conn{Conn: tc, c: c, frames: newFrameMonitor(time.Now)}
	if c.metered != nil {
		c.metered.startRequest()
	}
	c.multiplexed.netConn = nc
	if c.byteLimited() {
		// The first writes may have to wait for credit.
		stop := context.AfterFunc(ctx, c.abortGauge)
		defer stop()
	}
	cc, err := t.h2.NewClientConn(context.WithValue(ctx, dialedKey{}, nc), "http", "origin:80")
	if err != nil {
		return nil, err
	}
	c.multiplexed.client = cc
	_ = cc.Reserve() // a connection that has ended reports that to its first request
	return c, nil
}

// allowPublish lets the connection be published. It is called when nothing can fail any
// more.
func (c *conn) allowPublish() {
	c.multiplexed.timer = time.AfterFunc(settingsTimeout, c.publish)
	nc := c.multiplexed.netConn
	nc.mayPublish.Store(true)
	if nc.closing.Load() || nc.hasSettings.Load() {
		c.publish()
	}
}

// publish makes the connection available to other requests, once.
func (c *conn) publish() {
	c.multiplexed.publishOnce.Do(func() {
		c.multiplexed.timer.Stop()
		if c.multiplexed.endsDial {
			c.t.pool.dialEnded(c.home, c, nil)
		} else {
			c.t.pool.addHTTP2(c)
		}
	})
}

// http2Conn is the connection that net/http uses. When net/http reads again, it has
// processed the bytes of the read before.
type http2Conn struct {
	*tls.Conn
	c      *conn
	frames *frameMonitor

	mayPublish  atomic.Bool // the connection may be published
	hasSettings atomic.Bool // net/http has processed the origin's first settings
	closing     atomic.Bool // no more requests: the origin sent GOAWAY, or the connection has ended
	pinged      atomic.Bool // a ping was sent since the last byte from the origin
	writing     sync.Mutex

	// The reading goroutine alone uses the fields below.
	published bool      // publish was called
	lastRead  time.Time // start of the current wait for bytes
}

func (s *http2Conn) Read(p []byte) (int, error) {
	if !s.published {
		if !s.hasSettings.Load() && s.frames.hasSettings() {
			s.hasSettings.Store(true)
		}
		if s.hasSettings.Load() && s.mayPublish.Load() {
			s.published = true
			s.c.publish()
		}
	}
	if now := time.Now(); now.Sub(s.lastRead) >= pingSlack || s.pinged.Load() {
		s.lastRead = now
		s.pinged.Store(false)
		s.c.multiplexed.ping.start(pingAfter + pingSlack)
	}
	n, err := s.Conn.Read(p)
	if cause := s.frames.read(p[:n]); cause != nil {
		n, err = 0, cause
	}
	if s.frames.hasGoAway.Load() {
		s.end()
	}
	if err != nil {
		s.c.multiplexed.ping.stop()
		s.end()
		if !s.published && s.mayPublish.Load() {
			s.published = true
			s.c.publish() // the connection ends now: release the requests that wait for it
		}
	}
	return n, err
}

// end makes the connection refuse further requests.
func (s *http2Conn) end() {
	if !s.closing.Swap(true) {
		s.c.t.pool.remove(s.c)
	}
}

func (s *http2Conn) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.send(p, s.c.t.StallTimeout)
}

// send writes with timeout d; 0: no timeout. The caller holds the lock.
func (s *http2Conn) send(p []byte, d time.Duration) (int, error) {
	s.frames.wrote(p)
	if d > 0 {
		s.Conn.SetWriteDeadline(time.Now().Add(d))
		defer s.Conn.SetWriteDeadline(time.Time{})
	}
	return s.Conn.Write(p)
}

// Close waits at most closeTimeout for a peer that does not read.
func (s *http2Conn) Close() error {
	s.end()
	timer := time.AfterFunc(closeTimeout, func() { s.Conn.NetConn().Close() })
	defer timer.Stop()
	return closeAtOnce(s.Conn)
}

// pingFrame is a PING. Its answer is not matched: any byte from the origin shows that it is
// alive.
var pingFrame = []byte{0, 0, 8, framePing, 0, 0, 0, 0, 0, 'a', 'b', 'i', 'd', 'e', 0, 0, 0}

// ping sends a PING to a silent origin. It closes the connection if no byte has arrived by
// its next call. Every read restarts the timer.
func (c *conn) ping() {
	nc := c.multiplexed.netConn
	switch {
	case !nc.mayPublish.Load():
		c.multiplexed.ping.start(pingAfter)
	case nc.pinged.Swap(true):
		c.multiplexed.client.Close()
	default:
		c.multiplexed.ping.start(pingWait)
		nc.writing.Lock()
		defer nc.writing.Unlock()
		if !nc.frames.betweenFrames() { // a frame is being written
			nc.pinged.Store(false)
			return
		}
		nc.send(pingFrame, pingWait) // after an error the next call closes the connection
	}
}

const closeTimeout = 250 * time.Millisecond

var _ net.Conn = (*http2Conn)(nil)

// body2 is the body of an HTTP/2 answer.
type body2 struct {
	x     *exchange
	resp  *http.Response
	inner io.ReadCloser
	stall time.Duration // the longest silence; 0: any
	err   error
	ended atomic.Bool // err was returned to the reader
}

func (b *body2) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.stall > 0 {
		b.x.timer.start(b.stall)
	}
	n, err := b.inner.Read(p)
	if b.stall > 0 {
		b.x.timer.stop()
	}
	if err == nil {
		return n, nil
	}
	b.ended.Store(true)
	switch err {
	case io.EOF:
		maps.DeleteFunc(b.resp.Trailer, func(name string, _ []string) bool { return !allowedTrailer(name) })
		if b.x.up == nil {
			b.x.end(false)
		}
		b.err = err
	case io.ErrUnexpectedEOF:
		b.err = err
	default:
		b.err = b.x.fail(err, Stalled)
	}
	return n, b.err
}

// Close ends the stream if it has not ended.
func (b *body2) Close() error {
	ended := b.ended.Load()
	b.x.bodyAbandoned.Store(!ended)
	if ended || !b.x.c.byteLimited() {
		b.x.end(false)
		b.inner.Close()
		return nil
	}
	// Closing may write to a connection that is paused for another request. It ends with
	// the connection, at the latest.
	closing := &b.x.t.closing
	closing.Add(1)
	b.x.end(false)
	go func() {
		defer closing.Done()
		b.inner.Close()
	}()
	return nil
}

// upload2 is the request body that net/http's HTTP/2 reads. Between two reads the origin
// has to accept the bytes of the first.
type upload2 struct {
	x       *exchange
	body    io.ReadCloser
	started atomic.Bool // a byte of body may have been read
	readErr atomic.Pointer[requestBodyError]

	mu            sync.Mutex
	timer         *pausableTimer // nil: no timeout
	answerStarted bool           // the answer's head has arrived
	complete      bool           // the body has been read to its end
	exchangeEnded bool           // the exchange has ended

	closing sync.Once
}

func (u *upload2) Read(p []byte) (int, error) {
	u.mu.Lock()
	over := u.exchangeEnded
	if !over {
		u.started.Store(true)
	}
	u.mu.Unlock()
	if over {
		return 0, net.ErrClosed
	}
	u.startTimer(0)
	n, err := u.body.Read(p)
	switch err {
	case nil:
		u.startTimer(u.x.t.StallTimeout)
	case io.EOF:
		u.lastByteRead()
	default:
		bad := &requestBodyError{err}
		u.readErr.CompareAndSwap(nil, bad)
		return n, bad
	}
	return n, err
}

// startTimer requires the origin to accept the read bytes within d; 0: no timeout.
func (u *upload2) startTimer(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		u.timer.stop()
	}
	if d > 0 && !u.exchangeEnded {
		if u.timer == nil {
			u.timer = &pausableTimer{conn: u.x.c.metered, onExpire: u.x.stall}
		}
		u.timer.start(d)
	}
}

// lastByteRead is called after the body's last byte. When the origin has accepted it cannot
// be observed, so the timeout includes the time to answer.
func (u *upload2) lastByteRead() {
	t := u.x.t
	u.mu.Lock()
	u.complete = true
	heard := u.answerStarted
	u.mu.Unlock()
	if heard || t.StallTimeout <= 0 || t.AnswerTimeout <= 0 {
		u.startTimer(0)
		return
	}
	u.startTimer(t.StallTimeout + t.AnswerTimeout)
}

// answered records that the answer's head has arrived.
func (u *upload2) answered() {
	u.mu.Lock()
	u.answerStarted = true
	whole := u.complete
	u.mu.Unlock()
	if whole {
		u.startTimer(0)
	}
}

// Close does not close a body that has not been read, because it can still be sent on
// another connection. A Read that begins after Close must not touch the body either:
// nothing would close it then.
func (u *upload2) Close() error {
	u.startTimer(0)
	u.mu.Lock()
	started := u.started.Load()
	if !started {
		u.exchangeEnded = true
	}
	u.mu.Unlock()
	if started {
		u.close()
	}
	return nil
}

func (u *upload2) close() {
	u.closing.Do(func() { u.body.Close() })
}

// end is called when the exchange has ended. A body that was never read is closed here,
// unless it is sent again; net/http closes any other.
func (u *upload2) end(again bool) {
	u.mu.Lock()
	u.exchangeEnded = true
	u.mu.Unlock()
	u.startTimer(0)
	if !again && !u.started.Load() {
		u.close()
	}
}
