package proxy

import (
	"net"
	"sync"
)

// innerListener is the listener of the inner server. Its connections are those inside
// CONNECTs, which do not come from the network.
type innerListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newInnerListener() *innerListener {
	return &innerListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give hands a connection to Accept. It is false if the listener is closed.
func (l *innerListener) give(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

func (l *innerListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *innerListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *innerListener) Addr() net.Addr { return &net.UnixAddr{Name: "intercepted", Net: "abide"} }
