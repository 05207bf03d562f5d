//go:build unix && !linux

package upstream

import (
	"net"
	"syscall"
)

// arrival tells that something has come on a connection, without reading it.
type arrival struct{ raw syscall.RawConn }

func newArrival(nc net.Conn) (a arrival) {
	if tc, ok := nc.(*net.TCPConn); ok {
		if raw, err := tc.SyscallConn(); err == nil {
			a.raw = raw
		}
	}
	return a
}

// wait waits for bytes or the end, and tells how many bytes there are: 0 at the
// end, and otherwise as many as there could be. known is false where that cannot
// be told, and then it has not waited.
func (a arrival) wait() (have int, known bool, err error) {
	if a.raw == nil {
		return 0, false, nil
	}
	err = a.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err == syscall.EAGAIN || err == syscall.EINTR {
			return false
		}
		have = 0
		if n > 0 {
			have = mostAsked
		}
		return true
	})
	return have, true, err
}

// tellsRoom tells whether it is known here what a connection has received.
const tellsRoom = false

func (arrival) have() int { return 0 }

func (arrival) promised() int { return 0 }
