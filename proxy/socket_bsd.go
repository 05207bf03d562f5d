//go:build unix && !linux

package proxy

import "syscall"

// peerClosed tells whether the peer has closed a connection, or its sending side. While
// bytes that came before have not been read, it is false.
func peerClosed(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == nil && n == 0 || err == syscall.ECONNRESET || err == syscall.ETIMEDOUT
}
