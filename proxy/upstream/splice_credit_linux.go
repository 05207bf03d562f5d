package upstream

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// limitedEnd is the end of a relay that needs credit for this direction, and its deadline;
// nil if neither does.
func limitedEnd(to, from *side) (*meteredConn, *pausableDeadline) {
	switch {
	case from.bypassed != nil && from.bypassed.limiter() != nil:
		return from.bypassed, &from.bypassed.in
	case to.bypassed != nil && to.bypassed.limiter() != nil:
		return to.bypassed, &to.bypassed.out
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
		if b == &c.in {
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
	if b == &c.in {
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
