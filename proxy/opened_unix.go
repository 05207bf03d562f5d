//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// descriptorOf is a connection's own, nil if it has none.
func descriptorOf(c net.Conn) syscall.RawConn {
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

// hasCome tells whether a read would not have to wait.
func hasCome(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err != syscall.EAGAIN && err != syscall.EWOULDBLOCK
		}
	}
}
