package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const canSplice = true

// A slice is what the kernel moves in one go; nothing of it is counted before
// it ends. It ends after a tick when the sender pauses, and grows while it is
// over sooner, so that one for a slow receiver stays small.
const (
	smallSlice = 64 << 10
	largeSlice = 4 << 20
)

// splice lets the kernel move the bytes. While nothing comes it waits for the
// first byte only, for a splice that waits holds a pipe, which is two files.
func (r *relay) splice(to, from *side) error {
	raw, err := from.bare.SyscallConn()
	if err != nil {
		return err
	}
	slice := &io.LimitedReader{R: from.bare}
	size := int64(smallSlice)
	quiet := true
	for {
		if c, b := budgeted(to, from); c != nil {
			if end, err := r.spliceCredit(to, from, raw, c, b); end || err != nil {
				return err
			}
			quiet, size = true, smallSlice
			continue
		}
		if quiet {
			from.bare.SetReadDeadline(time.Time{})
			if err := raw.Read(readable); err != nil {
				return err
			}
		}
		// Only reading has a deadline. If writing had one, what is in the pipe
		// by then would be lost.
		began := time.Now()
		from.bare.SetReadDeadline(began.Add(r.tick))
		slice.N = size
		to.slice.Store(max(int64(began.Sub(r.start)), 1))
		n, err := to.bare.ReadFrom(slice)
		to.slice.Store(0)
		from.count(n, (*meteredConn).read)
		to.count(n, (*meteredConn).wrote)
		r.progress(n, to)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			quiet = n == 0
			size = smallSlice
		case err != nil:
			return err
		case slice.N > 0:
			return nil // the end
		default:
			quiet = false
			size = resize(size, time.Since(began), r.tick)
		}
	}
}

// resize keeps a slice shorter than a tick.
func resize(size int64, took, tick time.Duration) int64 {
	switch {
	case took < tick/16:
		return min(size*2, largeSlice)
	case took > tick/2:
		return max(size/4, smallSlice)
	}
	return size
}

func (s *side) count(n int64, how func(*meteredConn, int)) {
	if s.meter != nil && n > 0 {
		how(s.meter, int(n))
	}
}

// readable tells whether a read would not wait: for bytes, an end or an error.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != syscall.EAGAIN
}

// acknowledged is how many bytes the peer has taken.
func (s *side) acknowledged() (total uint64) {
	tc := s.bare
	if tc == nil {
		var ok bool
		if tc, ok = s.raw.(*net.TCPConn); !ok {
			return 0
		}
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			total = info.Bytes_acked
		}
	})
	return total
}
