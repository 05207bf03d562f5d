//go:build unix

package upstream

import "syscall"

// limitReceive has the system hold less on a socket that is not connected yet,
// so that it does not promise the peer more than that.
func limitReceive(raw syscall.RawConn, size int) {
	raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size)
	})
}
