package upstream

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// arrival tells what has come on a connection, without reading it.
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
// end. known is false where that cannot be told, and then it has not waited.
func (a arrival) wait() (have int, known bool, err error) {
	if a.raw == nil {
		return 0, false, nil
	}
	err = a.raw.Read(func(fd uintptr) bool {
		if have = waiting(fd); have > 0 {
			return true
		}
		if !readable(fd) {
			return false
		}
		have = waiting(fd) // some may have come between the two questions
		return true
	})
	return have, true, err
}

// waiting is how many bytes could be read without waiting.
func waiting(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// tellsRoom tells whether it is known here what a connection has received.
const tellsRoom = true

// have is how many bytes could be read without waiting.
func (a arrival) have() (n int) {
	if a.raw != nil {
		_ = a.raw.Control(func(fd uintptr) { n = waiting(fd) }) // one that is closed has none
	}
	return n
}

// promised is how many bytes the peer may still send, as it was told last: once nothing
// moves it knows that. 0 is also said by systems that do not tell.
func (a arrival) promised() (n int) {
	if a.raw != nil {
		_ = a.raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				n = int(info.Rcv_wnd)
			}
		})
	}
	return n
}
