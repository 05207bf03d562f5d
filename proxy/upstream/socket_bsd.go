//go:build unix && !linux

package upstream

import "syscall"

// wait waits until bytes can be read or the connection has ended. have is 0 at the end,
// otherwise an upper bound. known is false for a connection without a descriptor; then wait
// returns at once.
func (s socket) wait() (have int, known bool, err error) {
	if s.raw == nil {
		return 0, false, nil
	}
	err = s.raw.Read(func(fd uintptr) bool {
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
