package upstream

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// wait waits until bytes can be read or the connection has ended, and returns the number of
// bytes: 0 at the end. known is false for a connection without a descriptor; then wait
// returns at once.
func (s socket) wait() (unread int, known bool, err error) {
	if s.raw == nil {
		return 0, false, nil
	}
	err = s.raw.Read(func(fd uintptr) bool {
		if unread = unreadBytes(int(fd)); unread > 0 {
			return true
		}
		if !Readable(fd) {
			return false
		}
		unread = unreadBytes(int(fd)) // bytes may have arrived since the first look
		return true
	})
	return unread, true, err
}

// unreadBytes returns how many bytes can be read without blocking.
func unreadBytes(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// reportsUnread tells whether this system reports the number of unread bytes.
const reportsUnread = true

// unread returns how many bytes can be read without blocking.
func (s socket) unread() int { return s.look(unreadBytes) }

// receiveBuffer is the size in bytes of the receive buffer.
func (s socket) receiveBuffer() int {
	return s.look(func(fd int) int {
		n, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		return n
	})
}

// peerWindow returns how many bytes the peer may still send by the window announced to it
// last. It is exact once nothing is in flight. 0 is also returned on systems that do not
// report it.
func (s socket) peerWindow() int {
	return s.look(func(fd int) int { return int(tcpInfo(fd).Rcv_wnd) })
}

// tcpInfo returns what the system knows of a connection; nothing if it does not tell.
func tcpInfo(fd int) unix.TCPInfo {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return unix.TCPInfo{}
	}
	return *info
}

// look returns what f finds out about the descriptor, 0 for a connection that is closed or has none.
func (s socket) look(f func(fd int) int) (n int) {
	if s.raw != nil {
		_ = s.raw.Control(func(fd uintptr) { n = f(int(fd)) })
	}
	return n
}

// maxSystemReceiveBuffer returns the size in bytes up to which the system grows a receive buffer
// without a set size.
var maxSystemReceiveBuffer = sync.OnceValue(func() int64 {
	const unknown = 32 << 20
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_rmem") // minimum, default, maximum
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		return unknown
	}
	n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if err != nil || n <= 0 {
		return unknown
	}
	return n
})
