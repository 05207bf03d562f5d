//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// rawConnOf gives access to a connection's file descriptor, nil if it has none.
func rawConnOf(c net.Conn) syscall.RawConn {
	has, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := has.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// isReadable tells whether a read would return at once.
func isReadable(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err != syscall.EAGAIN && err != syscall.EWOULDBLOCK
		}
	}
}
