package upstream

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// budgeted is the end of a relay that asks for credit for this direction, and
// the brake for it; nil when none does.
func budgeted(to, from *side) (*meteredConn, *brake) {
	switch {
	case from.meter != nil && from.meter.limiter() != nil:
		return from.meter, &from.meter.in
	case to.meter != nil && to.meter.limiter() != nil:
		return to.meter, &to.meter.out
	}
	return nil, nil
}

// spliceCredit moves one slice under a byte limit: what has come already, as far
// as there is credit for it. end tells that the sender has said everything.
func (r *relay) spliceCredit(to, from *side, raw syscall.RawConn, c *meteredConn, b *brake) (end bool, err error) {
	c.repay() // for what was read before
	from.bare.SetReadDeadline(time.Time{})
	have, _, err := arrival{raw}.wait()
	if err != nil {
		return false, err
	}
	l := c.limiter()
	if l == nil {
		return false, nil // no more: the kernel may take what it likes
	}
	granted := 0
	if have > 0 {
		most, _ := c.atOnce()
		credit := c.creditOut
		if b == &c.in {
			credit = c.creditIn
		}
		if granted, err = credit(l, min(have, most)); err != nil {
			return false, err
		}
		r.moved.Store(int64(time.Since(r.start)))
	}
	// A byte more would be asked for without credit, so at the end there is one
	// that does not come.
	slice := &io.LimitedReader{R: from.bare, N: int64(max(granted, 1))}
	began := time.Now()
	from.bare.SetReadDeadline(began.Add(r.tick))
	to.slice.Store(max(int64(began.Sub(r.start)), 1))
	n, err := to.bare.ReadFrom(slice)
	to.slice.Store(0)
	if b == &c.in {
		c.took(granted, int(n))
	}
	if int(n) < granted {
		l.Refund(granted - int(n))
	}
	from.count(n, (*meteredConn).read)
	to.count(n, (*meteredConn).wrote)
	r.progress(n, to)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil && slice.N > 0, err
}
