//go:build unix && !linux

package proxy

import "syscall"

// hasEnded tells whether the peer has closed a connection, or its sending side. Where
// something lies before that which has not been read, nobody can tell.
func hasEnded(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == nil && n == 0 || err == syscall.ECONNRESET || err == syscall.ETIMEDOUT
}
