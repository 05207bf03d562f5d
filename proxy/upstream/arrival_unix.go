//go:build unix && !linux

package upstream

import "syscall"

// wait waits until bytes can be read or the connection has ended. have is 0 at the end,
// otherwise an upper bound. known is false for a connection without a descriptor; then wait
// returns at once.
func (a arrival) wait() (have int, known bool, err error) {
	if a.raw == nil {
		return 0, false, nil
	}
	err = a.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err == syscall.EAGAIN || err == syscall.EINTR {
			return false
		}
		have = 0
		if n > 0 {
			have = maxCredit
		}
		return true
	})
	return have, true, err
}

// reportsUnread tells whether this system reports the number of unread bytes.
const reportsUnread = false

func (arrival) unread() int { return 0 }

func (arrival) peerWindow() int { return 0 }

func (arrival) receiveBuffer() int { return 0 }

// maxSystemReceiveBuffer is the size in bytes up to which the system grows a receive buffer
// whose size was not set.
func maxSystemReceiveBuffer() int64 { return 8 << 20 }
