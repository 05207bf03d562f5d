package limit

import (
	"math"
	"math/bits"
	"time"
)

// paced is one every window/amount: after n, nothing goes for n times as long.
type paced struct {
	clock  steady
	spent  past
	amount int64
	window int64
	last   int64 // when something was taken last
	free   int64 // when the next may go
}

func newPaced(s Spec) *paced { return &paced{amount: s.Amount, window: int64(s.Window)} }

// gap is how long n units take, rounded up, and the same rounded down.
func (m *paced) gap(n int64) (up, down int64) {
	high, low := bits.Mul64(uint64(n), uint64(m.window))
	if high >= uint64(m.amount) {
		return edge, edge
	}
	q, r := bits.Div64(high, low, uint64(m.amount))
	if q >= uint64(edge) {
		return edge, edge
	}
	if r == 0 {
		return int64(q), int64(q)
	}
	return int64(q) + 1, int64(q)
}

// plus is v and a length of time, both within what is counted.
func plus(v, d int64) int64 {
	if d > math.MaxInt64-v {
		return math.MaxInt64
	}
	return v + d
}

func (m *paced) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.amount {
		return now, false
	}
	v := m.clock.at(now)
	return later(now, max(v, m.free)-v), true
}

func (m *paced) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.clock.at(now)
	up, _ := m.gap(n)
	m.last, m.free = v, plus(max(m.free, v), up)
	m.spent.add(v, n)
}

// Give frees the way if nothing has gone since: what went later has waited for
// this one already.
func (m *paced) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *paced) Give(now, taken time.Time, n int64) {
	m.clock.at(now)
	at, known := m.clock.past(taken)
	if n = amount(n); !known || n == 0 {
		return
	}
	m.spent.back(at, n)
	m.back(at, n)
}

func (m *paced) back(at, n int64) {
	if at >= m.last {
		_, down := m.gap(n)
		m.free = max(m.free-down, m.last)
	}
}

func (m *paced) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.clock.at(now)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		// The last one's own time goes on from where it began. What others have gone
		// since is owed from now on.
		from := max(m.free, v)
		if at, known := m.clock.past(taken); known && at >= m.last {
			from = m.free
		}
		up, _ := m.gap(more)
		m.free = plus(from, up)
		m.spent.add(v, more)
	case more < 0:
		if at, known := m.clock.past(taken); known {
			m.spent.back(at, -more)
			m.back(at, -more)
		}
	}
}

func (m *paced) Done(_, _ time.Time, _ int64, _ Outcome) {}

// Left is the whole amount when the way is free: it may go at once, and what
// follows waits for all of it.
func (m *paced) Left(now time.Time) int64 {
	v := m.clock.at(now)
	if v < m.free {
		return 0
	}
	return m.amount
}

func (m *paced) Idle(now time.Time) bool {
	v := m.clock.at(now)
	return v >= m.free
}

func (m *paced) State() []byte {
	b := newEncoder(Paced)
	b.int(m.clock.last)
	m.spent.append(&b)
	b.int(max(m.free-m.clock.last, 0))
	return b
}

func (m *paced) Restore(now time.Time, state []byte) error {
	d := newDecoder(Paced, state)
	last := d.time(edge)
	spent := d.spent(last)
	rest := d.between(0, math.MaxInt64)
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.last, m.free = spent, last+by, plus(last+by, rest)
	return nil
}
