//go:build !unix

package proxy

import (
	"net"
	"syscall"
)

// rawConnOf is nil: without Unix a socket cannot be examined without reading from it.
func rawConnOf(net.Conn) syscall.RawConn { return nil }

func isReadable(uintptr) bool { return true }

func peerClosed(uintptr) bool { return false }

// descriptors returns a number that stands for no limit, because the system names none.
func descriptors() int64 { return 1 << 16 }
