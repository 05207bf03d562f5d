//go:build unix

package upstream

import "syscall"

// limitReceive sets the receive buffer of a socket before it connects, so that no larger
// window is announced to the peer.
func limitReceive(raw syscall.RawConn, size int) {
	raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size)
	})
}
