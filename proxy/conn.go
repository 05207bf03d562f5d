package proxy

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// halfCloseGrace is how long the answer to a request in flight may still take
// after its client has shut its sending side. A client that only half-closed
// gets its answer; one that is gone costs this much and no more.
const halfCloseGrace = 900 * time.Millisecond

// lingerTime and lingerBytes bound how much of an unwanted body is thrown away
// so that its sender can read the answer.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 20
)

// clientConn is a client's TCP connection. It cuts a client that does not
// read, keeps an answer alive through a half-close, and remembers what CONNECT
// established. It hides ReadFrom from net/http on purpose: a response's head
// and a small body then leave in one write.
type clientConn struct {
	net.Conn
	addr    netip.Addr
	opens   bool // it came to the open listener
	naming  sync.Once
	named   string // addr
	stall   time.Duration
	release func()
	tunnels *tunnels    // which waits for a connection that lingers
	unread  atomic.Bool // the client still sends something that nobody will read
	closed  atomic.Bool

	armed  atomic.Int64    // sinceStart when the write deadline was last set
	prefix []byte          // read before this connection was handed on
	raw    syscall.RawConn // once await has been asked

	// serving is on from when a request comes to a handler until it is over.
	serving atomic.Bool
	refused func(reason string) // hears of answers to requests that come to no handler

	// answering is on while a request is served: the only time in which an end
	// of the client's bytes does not mean that it has left.
	answering atomic.Bool
	bodiless  atomic.Bool // the same, and nothing of the request is left to be read
	mu        sync.Mutex
	past      bool          // the read deadline lies in the past
	waiting   chan struct{} // closed to wake a Read that outlasts a half-close

	// Set by CONNECT before the connection is handed to the inner server.
	target   *policy.Target
	client   *client
	via      string
	wish     wish
	admitted *policy.Policy // by whose rules
	asked    atomic.Bool    // a request has come since
}

// bareConn finds the clientConn under a TLS connection.
func bareConn(c net.Conn) *clientConn {
	for c != nil {
		switch t := c.(type) {
		case *clientConn:
			return t
		case interface{ NetConn() net.Conn }:
			c = t.NetConn()
		default:
			return nil
		}
	}
	return nil
}

// NetConn lets the relay find the bare TCP connection, to splice it.
func (c *clientConn) NetConn() net.Conn { return c.Conn }

func (c *clientConn) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if err == io.EOF && n == 0 && c.answering.Load() {
		return 0, c.outlast()
	}
	return n, err
}

// outlast holds back an EOF for a while. net/http watches the connection while
// a handler runs and takes EOF for a client that has left; it ends the watch by
// setting a read deadline in the past.
func (c *clientConn) outlast() error {
	c.mu.Lock()
	if c.past {
		c.mu.Unlock()
		return os.ErrDeadlineExceeded
	}
	woken := make(chan struct{})
	c.waiting = woken
	c.mu.Unlock()
	grace := time.NewTimer(halfCloseGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
	case <-woken:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.past {
			return os.ErrDeadlineExceeded
		}
	}
	return io.EOF
}

// withUpstream tells whether the request in flight is with its upstream, or waits
// for its turn: then a client that shuts its sending side has left, for nothing
// may be spent on one that nobody waits for.
func (c *clientConn) withUpstream(yes bool) {
	if c.answering.Load() == yes {
		return
	}
	c.answering.Store(yes)
	if !yes {
		c.mu.Lock()
		c.wake()
		c.mu.Unlock()
	}
}

// wished is what the CONNECT of this connection said for all requests inside.
func (c *clientConn) wished() wish {
	if c == nil {
		return wish{}
	}
	return c.wish
}

func (c *clientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.past = !t.IsZero() && t.Before(time.Now())
	if c.past {
		c.wake()
	}
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// wake ends an outlast; c.mu is held.
func (c *clientConn) wake() {
	if c.waiting != nil {
		close(c.waiting)
		c.waiting = nil
	}
}

// Write gives the client timeouts.stall to take what is written. The deadline
// is moved only when a quarter of it has passed, for it costs more than a look
// at the clock.
func (c *clientConn) Write(p []byte) (int, error) {
	now := int64(sinceStart())
	if last := c.armed.Load(); last == 0 || now-last > int64(c.stall)/4 {
		c.armed.Store(now)
		c.Conn.SetWriteDeadline(time.Now().Add(c.stall))
	}
	if !c.serving.Load() {
		return c.say(c.Conn, p)
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline is for those who know better than stall, such as net/http
// when it closes; the next Write may move it again. net/http also takes the
// deadline away after each answer: one that Write has set stays then, for it
// concerns nobody while nothing is written, and to set it again costs more.
func (c *clientConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && c.armed.Load() != 0 {
		return nil
	}
	return c.limitWrites(t)
}

func (c *clientConn) limitWrites(t time.Time) error {
	c.armed.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is for a connection that changes hands: it takes Write's away too.
func (c *clientConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.limitWrites(t)
}

// name is the address as text, made once.
func (c *clientConn) name() string {
	c.naming.Do(func() { c.named = c.addr.String() })
	return c.named
}

func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Close lingers when the client is still sending: closing at once would reset
// the connection, and with it the answer that the client has not read yet.
func (c *clientConn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return c.Conn.Close()
	}
	c.mu.Lock()
	c.past = true
	c.wake()
	c.mu.Unlock()
	if c.unread.Load() && c.tunnels != nil && c.tunnels.add(c) {
		go c.linger()
		return nil
	}
	return c.end()
}

func (c *clientConn) end() error {
	if c.release != nil {
		c.release()
	}
	return c.Conn.Close()
}

// linger throws away what the client sends, for a while.
func (c *clientConn) linger() {
	defer c.tunnels.remove(c)
	defer c.end()
	c.CloseWrite()
	c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, c.Conn, lingerBytes)
}
