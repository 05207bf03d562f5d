package chaos

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

const (
	buffer    = 64 << 10        // bytes of one direction that are written and not yet read
	unlimited = 1 << 30         // the same where a write must not wait, see network.dial
	vanished  = 2 * time.Minute // after which both ends of a cut connection notice
	manyConns = 10_000          // of a network; more are a leak
)

// network connects clients, abides and sites in memory. Bytes take time, come in pieces, and
// connections are reset, cut or stalled.
type network struct {
	mu        sync.Mutex
	random    *rand.Rand           // guarded by mu
	listeners map[string]*listener // :: address
	open      map[*conn]string     // connections that neither end has closed at this end :: address of the listener
	dark      map[string]time.Time // :: address → until when nothing passes to and from it
	refusing  map[string]time.Time // :: address → until when connections are refused
	slowest   time.Duration        // latency of one way, at most
	pieces    float64              // part of the writes that arrives in two pieces
	port      uint16               // of the next client
}

func newNetwork(seed uint64) *network {
	return &network{
		random: rand.New(rand.NewPCG(seed, 1)), listeners: map[string]*listener{}, open: map[*conn]string{},
		dark: map[string]time.Time{}, refusing: map[string]time.Time{},
		slowest: 20 * time.Millisecond, pieces: 0.1, port: 1024,
	}
}

// listener accepts the connections to one address.
type listener struct {
	net     *network
	address string
	addr    net.Addr
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
}

// listen accepts connections to a name, as "a.test:80", whose address is shown as addr.
func (n *network) listen(name, addr string) *listener {
	l := &listener{
		net: n, address: name, addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)),
		conns: make(chan net.Conn, 128), done: make(chan struct{}),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[name] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections, and resets those that nobody has accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		if l.net.listeners[l.address] == l {
			delete(l.net.listeners, l.address)
		}
		l.net.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.conns:
				c.(*conn).reset()
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// latency returns the time that a piece takes.
func (n *network) latency() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Millisecond + time.Duration(n.random.Int64N(int64(n.slowest)))
}

// chance reports whether something happens that has a probability.
func (n *network) chance(p float64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.Float64() < p
}

// within returns a number from 0 to below most.
func (n *network) within(most int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(max(most, 1))
}

// dial connects to a name, as a client with the address from. room is the number of bytes in each
// direction that may be written and not yet read. With TLS it is unlimited: HTTP/2 and TLS hold a
// lock while they write, and in a bubble no time passes while a goroutine waits for a lock.
func (n *network) dial(ctx context.Context, from netip.Addr, name string, room int) (net.Conn, error) {
	fails := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	for { // a lost packet is sent again
		if err := clock.Sleep(ctx, n.latency()); err != nil {
			return fails(err)
		}
		if left := n.darkFor(name); left > 0 {
			if err := clock.Sleep(ctx, left); err != nil {
				return fails(err)
			}
			continue
		}
		break
	}
	n.mu.Lock()
	l, refusing := n.listeners[name], time.Now().Before(n.refusing[name])
	n.port = max(n.port+1, 1024)
	port := n.port
	n.mu.Unlock()
	if l == nil || refusing {
		if err := clock.Sleep(ctx, n.latency()); err != nil {
			return fails(err)
		}
		return fails(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	near, far := n.pair(name, room, net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, port)), l.addr)
	select {
	case l.conns <- far:
	case <-l.done:
		near.reset()
		far.Close()
		return fails(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	if err := clock.Sleep(ctx, n.latency()); err != nil {
		near.Close()
		return fails(err)
	}
	return near, nil
}

// darkFor returns for how long nothing passes to and from an address.
func (n *network) darkFor(name string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Until(n.dark[name])
}

func (n *network) pair(name string, room int, client, server net.Addr) (near, far *conn) {
	there, back := &stream{room: room, changed: make(chan struct{})}, &stream{room: room, changed: make(chan struct{})}
	near = &conn{net: n, in: back, out: there, local: client, remote: server}
	far = &conn{net: n, in: there, out: back, local: server, remote: client}
	near.peer, far.peer = far, near
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[near], n.open[far] = name, name
	if len(n.open) > manyConns {
		panic("more connections than a network may have")
	}
	return near, far
}

func (n *network) closed(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
}

// connsTo returns an end of each open connection to a name, the side that has accepted it.
func (n *network) connsTo(name string) (all []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, to := range n.open {
		if to == name && c.local == n.addrOf(name) {
			all = append(all, c)
		}
	}
	return all
}

func (n *network) addrOf(name string) net.Addr {
	if l := n.listeners[name]; l != nil {
		return l.addr
	}
	return nil
}

// left returns the names to which connections are open.
func (n *network) left() (names map[string]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	names = map[string]int{}
	for _, to := range n.open {
		names[to]++
	}
	return names
}

// darken lets nothing pass to and from a name until a time; it arrives afterwards.
func (n *network) darken(name string, until time.Time) {
	n.mu.Lock()
	n.dark[name] = until
	n.mu.Unlock()
	for _, c := range n.connsTo(name) {
		c.in.stall(until)
		c.out.stall(until)
	}
}

// refuse refuses connections to a name until a time.
func (n *network) refuse(name string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusing[name] = until
}

// connsOf returns the connections that an abide has opened to sites.
func (n *network) connsOf(index int) (all []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		if a, ok := c.local.(*net.TCPAddr); ok && a.IP.To4()[0] == 10 && int(a.IP.To4()[2]) == index {
			all = append(all, c)
		}
	}
	return all
}
