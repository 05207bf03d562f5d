package limit

import (
	"math"
	"math/bits"
	"time"
)

// paced spaces units evenly, one every window/amount: after n units, nothing goes for n
// intervals.
type paced struct{ spacing }

// spacing holds units apart: after n units, nothing goes for n intervals.
type spacing struct {
	clock    Clock
	spent    history
	most     int64 // the largest amount
	units    int64 // so many units
	long     int64 // in so many nanoseconds
	lastLong int64 // long at the last take; 0: nothing of it is freed
	last     int64 // time of the last take
	nextAt   int64 // when the next unit may be taken
}

// gap is the time of n units of which m.units take so long, rounded up, and rounded down.
func (m *spacing) gap(n, long int64) (up, down int64) {
	high, low := bits.Mul64(uint64(n), uint64(long))
	if high >= uint64(m.units) {
		return FarFuture, FarFuture
	}
	q, r := bits.Div64(high, low, uint64(m.units))
	if q >= uint64(FarFuture) {
		return FarFuture, FarFuture
	}
	return int64(q) + int64(min(r, 1)), int64(q)
}

func (m *spacing) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 || n > m.most {
		return now, n <= 0
	}
	v := m.clock.At(now)
	return now.Add(time.Duration(max(m.nextAt-v, 0))), true
}

func (m *spacing) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.clock.At(now)
	up, _ := m.gap(n, m.long)
	m.last, m.nextAt, m.lastLong = v, plus(max(m.nextAt, v), up), m.long
	m.spent.add(v, n)
}

// Postpone is Give at the old time and Take now.
func (m *spacing) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *spacing) Give(now, taken time.Time, n int64) {
	m.Settle(now, taken, n, 0)
}

// Settle frees intervals only if nothing was taken since: later takes have waited for them.
func (m *spacing) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.clock.At(now)
	at, known := m.clock.past(taken)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		// The last one's own time goes on from where it began. What others have gone
		// since is owed from now on.
		from := max(m.nextAt, v)
		if known && at >= m.last {
			from = m.nextAt
		}
		up, _ := m.gap(more, m.long)
		m.nextAt = plus(from, up)
		m.spent.add(v, more)
	case more < 0 && known:
		m.spent.remove(at, -more)
		if at >= m.last {
			_, down := m.gap(-more, m.lastLong)
			m.nextAt = max(m.nextAt-down, m.last)
		}
	}
}

func (m *spacing) Done(_, _ time.Time, _ int64, _ Outcome) {}

func (m *spacing) at(now time.Time) int64 { return m.clock.At(now) }

func (m *spacing) past() *history { return &m.spent }

// counted is nothing: only the time until the next unit counts.
func (m *spacing) counted(int64) (within, units int64) { return 0, 0 }

// Left is the whole amount if the next unit may be taken now: all may go at once, and the
// following units wait for it.
func (m *paced) Left(now time.Time) int64 {
	v := m.clock.At(now)
	if v < m.nextAt {
		return 0
	}
	return m.most
}

func (m *paced) Idle(now time.Time) bool {
	v := m.clock.At(now)
	return v >= m.nextAt
}

func (m *paced) State() []byte {
	b := newState(Paced, m.clock.last, &m.spent)
	b.int(max(m.nextAt-m.clock.last, 0))
	return b
}

func (m *paced) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(Paced, state)
	rest := d.between(0, math.MaxInt64)
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.last, m.nextAt = spent, last+by, plus(last+by, rest)
	return nil
}

// replay waits as long as the takes would have required, but at most the window.
func (m *paced) replay(int64, []Spent) {
	m.last, m.nextAt = 0, 0
	for i := range m.spent.count {
		t := m.spent.at(i)
		up, _ := m.gap(t.n, m.long)
		m.last, m.nextAt = t.at, min(plus(max(m.nextAt, t.at), up), t.at+m.long)
	}
}

func (m *paced) become(now time.Time, to Meter, list []Spent) Meter {
	fresh := to.(*paced)
	m.most, m.units, m.long, m.lastLong = fresh.most, fresh.units, fresh.long, fresh.long
	if len(list) > 0 {
		m.replay(m.at(now), list)
	}
	return m
}
