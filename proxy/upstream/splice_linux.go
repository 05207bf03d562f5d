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

// A slice has the bytes that the kernel moves in one call; they are counted when the call
// ends. A call ends when the sender pauses for a tick. Slices grow while they take less than
// a tick, so slices to a slow receiver stay small.
const (
	smallSlice = 64 << 10 // -
	largeSlice = 4 << 20
)

// splice lets the kernel move the bytes. While nothing arrives it waits for the first byte
// only, because a waiting splice holds a pipe, which is two files.
func (r *relay) splice(to, from *side) error {
	raw, err := from.tcp.SyscallConn()
	if err != nil {
		return err
	}
	slice := &io.LimitedReader{R: from.tcp}
	size := int64(smallSlice)
	quiet := true
	for {
		if c, b := limitedEnd(to, from); c != nil {
			if end, err := r.spliceCredit(to, from, raw, c, b); end || err != nil {
				return err
			}
			quiet, size = true, smallSlice
			continue
		}
		if quiet {
			from.tcp.SetReadDeadline(time.Time{})
			if err := raw.Read(readable); err != nil {
				return err
			}
		}
		// Only reading has a deadline. With a write deadline, bytes in the pipe would be
		// lost.
		began := time.Now()
		from.tcp.SetReadDeadline(began.Add(r.tick))
		slice.N = size
		to.sliceBegan.Store(max(int64(began.Sub(r.start)), 1))
		n, err := to.tcp.ReadFrom(slice)
		to.sliceBegan.Store(0)
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

// resize returns a size for slices that take less than a tick.
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
	if s.bypassed != nil && n > 0 {
		how(s.bypassed, int(n))
	}
}

// readable tells whether a read would return at once: with bytes, the end or an error.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != syscall.EAGAIN
}

// acknowledged returns the number of bytes that the peer has acknowledged.
func (s *side) acknowledged() (total uint64) {
	tc := s.tcp
	if tc == nil {
		var ok bool
		if tc, ok = s.innermost.(*net.TCPConn); !ok {
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

// limitedEnd is the end of a relay that needs credit for this direction, and its deadline;
// nil if neither does.
func limitedEnd(to, from *side) (*meteredConn, *pausableDeadline) {
	switch {
	case from.bypassed != nil && from.bypassed.limiter() != nil:
		return from.bypassed, &from.bypassed.deadlines.in
	case to.bypassed != nil && to.bypassed.limiter() != nil:
		return to.bypassed, &to.bypassed.deadlines.out
	}
	return nil, nil
}

// spliceCredit moves one slice under a byte limit: bytes that have arrived, as far as there
// is credit. end means that the sender has ended its direction.
func (r *relay) spliceCredit(to, from *side, raw syscall.RawConn, c *meteredConn, b *pausableDeadline) (end bool, err error) {
	from.tcp.SetReadDeadline(time.Time{})
	have, _, err := arrival{raw}.wait()
	if err != nil {
		return false, err
	}
	l := c.limiter()
	if l == nil {
		return false, nil // no limit any more
	}
	granted := 0
	if have > 0 {
		credit := c.creditOut
		if b == &c.deadlines.in {
			credit = c.creditIn
		}
		if granted, err = credit(l, min(have, c.creditStep())); err != nil {
			return false, err
		}
		r.lastTraffic.Store(int64(time.Since(r.start)))
	}
	// With a limit of 0 bytes the end could not be seen, so the slice has at least one
	// byte.
	slice := &io.LimitedReader{R: from.tcp, N: int64(max(granted, 1))}
	began := time.Now()
	from.tcp.SetReadDeadline(began.Add(r.tick))
	to.sliceBegan.Store(max(int64(began.Sub(r.start)), 1))
	n, err := to.tcp.ReadFrom(slice)
	to.sliceBegan.Store(0)
	back := granted - int(n)
	if b == &c.deadlines.in {
		back = c.consumed(granted, int(n))
	}
	if back > 0 {
		l.Refund(back)
	}
	from.count(n, (*meteredConn).read)
	to.count(n, (*meteredConn).wrote)
	r.progress(n, to)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil && slice.N > 0, err
}
