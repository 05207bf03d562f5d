//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// socket looks at the receive buffer of a connection without reading from it. The zero value has no
// descriptor and tells nothing.
type socket struct {
	raw    syscall.RawConn
	peek   func(fd uintptr) // sets silent
	silent *bool
}

func newSocket(nc net.Conn) socket {
	for layer := range Layers(nc) {
		if raw := RawConn(layer); raw != nil {
			silent := new(bool)
			return socket{raw, func(fd uintptr) { *silent = !Readable(fd) }, silent}
		}
	}
	return socket{}
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

// alive tells whether an idle connection is still usable. It never blocks. A connection
// without a descriptor is taken to be alive.
func (s socket) alive() bool {
	if s.raw == nil {
		return true
	}
	*s.silent = false
	// Control, because Read fails after an expired read deadline.
	return s.raw.Control(s.peek) == nil && *s.silent
}

// readAvailable reads bytes that have arrived, and never blocks. Errors and the end are
// left to the next ordinary read.
func (s socket) readAvailable(into []byte) (n int) {
	if s.raw == nil {
		return 0
	}
	_ = s.raw.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), into) // net sets descriptors to non-blocking
		return true
	})
	return max(n, 0)
}
