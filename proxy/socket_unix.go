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

// isReadable reports whether a read would return at once.
func isReadable(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err != syscall.EAGAIN && err != syscall.EWOULDBLOCK
		}
	}
}

// descriptors returns the number of files that this process may open. Each client may need one
// more for its upstream.
func descriptors() int64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int64(min(r.Cur, 1<<20))
}
