package proxy

import "golang.org/x/sys/unix"

// hasEnded tells whether the peer has closed a connection, or its sending side, whether
// or not what it sent before has been read.
func hasEnded(fd uintptr) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0 && look[0].Revents != 0
}
