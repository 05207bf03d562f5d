package clients

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay passes connections on, and counts them: whether a client keeps its
// connections is not to be seen from behind a proxy.
type relay struct {
	address  string
	accepted atomic.Int64
}

// startRelay passes every connection on to one that dial makes.
func startRelay(t *testing.T, dial func() (net.Conn, error)) *relay {
	t.Helper()
	listener := listen(t)
	r := &relay{address: listener.Addr().String()}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		closing bool
		open    = map[net.Conn]bool{}
	)
	keep := func(c net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		open[c] = true
		return !closing
	}
	drop := func(c net.Conn) {
		c.Close()
		mu.Lock()
		defer mu.Unlock()
		delete(open, c)
	}
	pass := func(client net.Conn) {
		defer drop(client)
		server, err := dial()
		if err != nil {
			t.Errorf("relay: %v", err)
			return
		}
		defer drop(server)
		if !keep(client) || !keep(server) {
			return
		}
		var back sync.WaitGroup
		back.Go(func() { pipe(client, server) })
		pipe(server, client)
		back.Wait()
	}
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed below
			}
			r.accepted.Add(1)
			running.Go(func() { pass(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		closing = true
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return r
}

// pipe copies until the end of from, which it passes on. What fails ends both
// ways: the other end has to see it too.
func pipe(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}

// dialer opens connections to an address.
func dialer(address string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.DialTimeout("tcp", address, clientTime) }
}
