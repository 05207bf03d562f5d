//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// arrival looks at the receive buffer of a connection without reading from it.
type arrival struct{ raw syscall.RawConn }

func newArrival(nc net.Conn) (a arrival) {
	if tc, ok := nc.(*net.TCPConn); ok {
		if raw, err := tc.SyscallConn(); err == nil {
			a.raw = raw
		}
	}
	return a
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
	for layer := range layers(nc) {
		if sc, ok := layer.(syscall.Conn); ok {
			rc, err := sc.SyscallConn()
			if err != nil {
				return peeker{}
			}
			quiet := new(bool)
			look := func(fd uintptr) {
				var b [1]byte
				_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
				*quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
			}
			return peeker{rc, look, quiet}
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
