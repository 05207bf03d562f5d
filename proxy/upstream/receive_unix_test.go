//go:build unix

package upstream

import (
	"net"
	"syscall"
	"testing"
)

func receiveBufferOf(t *testing.T, tc *net.TCPConn) (size int) {
	t.Helper()
	raw, err := tc.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF) })
	if err != nil {
		t.Fatal(err)
	}
	return size
}
