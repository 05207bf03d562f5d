package proxy

import "golang.org/x/sys/unix"

// peerClosed tells whether the peer has closed a connection, or its sending side, also
// where bytes that came before have not been read.
func peerClosed(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents != 0
}
