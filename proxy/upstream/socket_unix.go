//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// arrival looks at the receive buffer of a connection without reading from it.
type arrival struct{ raw syscall.RawConn }

func newArrival(nc net.Conn) (a arrival) {
	if _, ok := nc.(*net.TCPConn); ok {
		a.raw = RawConn(nc)
	}
	return a
}

// RawConn gives access to the descriptor of a connection; nil if it has none.
func RawConn(nc net.Conn) syscall.RawConn {
	if has, ok := nc.(syscall.Conn); ok {
		if raw, err := has.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// Readable tells whether a read would return at once: with bytes, the end or an error.
func Readable(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err != syscall.EAGAIN && err != syscall.EWOULDBLOCK
		}
	}
}

// limitReceive sets the receive buffer of a socket before it connects, so that no larger
// window is announced to the peer.
func limitReceive(raw syscall.RawConn, size int) {
	raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size)
	})
}

// peeker checks whether bytes or an end have arrived on a connection that should be idle.
type peeker struct {
	rc     syscall.RawConn
	peek   func(fd uintptr)
	silent *bool
}

func newPeeker(nc net.Conn) peeker {
	for layer := range Layers(nc) {
		if rc := RawConn(layer); rc != nil {
			silent := new(bool)
			return peeker{rc, func(fd uintptr) { *silent = !Readable(fd) }, silent}
		}
	}
	return peeker{}
}

// alive tells whether an idle connection is still usable. It never blocks. A connection
// without a descriptor is taken to be alive.
func (p peeker) alive() bool {
	if p.rc == nil {
		return true
	}
	*p.silent = false
	// Control, because Read fails after an expired read deadline.
	return p.rc.Control(p.peek) == nil && *p.silent
}

// readAvailable reads bytes that have arrived, and never blocks. Errors and the end are
// left to the next ordinary read.
func (p peeker) readAvailable(into []byte) (n int) {
	if p.rc == nil {
		return 0
	}
	_ = p.rc.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), into) // net sets descriptors to non-blocking
		return true
	})
	return max(n, 0)
}
