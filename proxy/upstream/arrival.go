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
