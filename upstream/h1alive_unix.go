//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// peeker looks whether anything, an end included, has come on a connection
// that should be silent.
type peeker struct {
	rc    syscall.RawConn
	look  func(fd uintptr)
	quiet *bool
}

func newPeeker(nc net.Conn) peeker {
	for nc != nil {
		if sc, ok := nc.(syscall.Conn); ok {
			rc, err := sc.SyscallConn()
			if err != nil {
				return peeker{}
			}
			quiet := new(bool)
			look := func(fd uintptr) {
				var b [1]byte
				_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
				*quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
			}
			return peeker{rc, look, quiet}
		}
		inner, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = inner.NetConn()
	}
	return peeker{}
}

// alive never waits. A connection that offers no descriptor is believed.
func (p peeker) alive() bool {
	if p.rc == nil {
		return true
	}
	*p.quiet = false
	// Control and not Read, which would mind a read deadline that has passed.
	return p.rc.Control(p.look) == nil && *p.quiet
}

// more reads what has come already into p, and never waits. What is wrong with
// the connection, its end included, is for the next ordinary read to find.
func (p peeker) more(into []byte) (n int) {
	if p.rc == nil {
		return 0
	}
	_ = p.rc.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), into) // its descriptors never block
		return true
	})
	return max(n, 0)
}
