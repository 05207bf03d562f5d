package upstream

import (
	"errors"
	"io"
	"os"
	"time"
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
		limit := sliceLimit(to, from)
		if limit == 0 {
			from.tcp.SetReadDeadline(time.Time{})
			if end, err := r.pumpOnce(to, from); end || err != nil {
				return err
			}
			quiet, size = true, smallSlice
			continue
		}
		if quiet {
			from.tcp.SetReadDeadline(time.Time{})
			if err := raw.Read(Readable); err != nil {
				return err
			}
		}
		// Only reading has a deadline. With a write deadline, bytes in the pipe would be
		// lost.
		began := time.Now()
		from.tcp.SetReadDeadline(began.Add(r.tick))
		size = min(size, limit)
		slice.N = size
		to.sliceBegan.Store(max(int64(began.Sub(r.start)), 1))
		n, err := to.tcp.ReadFrom(slice)
		to.sliceBegan.Store(0)
		from.count(n, (*meteredConn).readUnasked)
		to.count(n, (*meteredConn).wroteUnasked)
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

// acknowledged returns the number of bytes that the peer has acknowledged.
func (s *side) acknowledged() uint64 {
	return uint64(newSocket(s.innermost).look(func(fd int) int { return int(tcpInfo(fd).Bytes_acked) }))
}

// sliceLimit returns the most bytes of a slice that are moved without having asked for credit;
// 0 if a byte limit has to be asked before.
func sliceLimit(to, from *side) int64 {
	limit := int64(largeSlice)
	for _, s := range [...]*side{to, from} {
		if s.bypassed == nil || s.bypassed.limiter() == nil {
			continue
		}
		if s.bypassed.asksFirst() != nil {
			return 0
		}
		limit = maxSpliceUnasked
	}
	return limit
}
