package limit

import (
	"math"
	"math/bits"
	"time"
)

// paced spaces units evenly, one every window/amount: after n units, nothing goes for n
// intervals.
type paced struct {
	spacing
	amount int64
	window int64
}

// spacing holds the units of a meter apart.
type spacing struct {
	clock  Clock
	spent  history
	last   int64 // time of the last take
	nextAt int64 // when the next unit may be taken
}

// settle counts so many units more or, if negative, fewer for a take. long is the interval of as
// many units. An interval is freed if nothing was taken since: later takes have waited for it.
func (m *spacing) settle(v int64, taken time.Time, more, long int64) {
	at, known := m.clock.past(taken)
	switch {
	case more > 0:
		// The last one's own time goes on from where it began. What others have gone
		// since is owed from now on.
		from := max(m.nextAt, v)
		if known && at >= m.last {
			from = m.nextAt
		}
		m.nextAt = plus(from, long)
		m.spent.add(v, more)
	case more < 0 && known:
		m.spent.remove(at, -more)
		if at >= m.last {
			m.nextAt = max(m.nextAt-long, m.last)
		}
	}
}

// gap is the length of n intervals, rounded up, and rounded down.
func (m *paced) gap(n int64) (up, down int64) {
	high, low := bits.Mul64(uint64(n), uint64(m.window))
	if high >= uint64(m.amount) {
		return FarFuture, FarFuture
	}
	q, r := bits.Div64(high, low, uint64(m.amount))
	if q >= uint64(FarFuture) {
		return FarFuture, FarFuture
	}
	if r == 0 {
		return int64(q), int64(q)
	}
	return int64(q) + 1, int64(q)
}

func (m *paced) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 || n > m.amount {
		return now, n <= 0
	}
	v := m.clock.At(now)
	return later(now, max(v, m.nextAt)-v), true
}

func (m *paced) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.clock.At(now)
	up, _ := m.gap(n)
	m.last, m.nextAt = v, plus(max(m.nextAt, v), up)
	m.spent.add(v, n)
}

// Postpone is Give at the old time and Take now.
func (m *paced) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *paced) Give(now, taken time.Time, n int64) {
	m.Settle(now, taken, n, 0)
}

func (m *paced) Settle(now, taken time.Time, estimate, actual int64) {
	more := amount(actual) - amount(estimate)
	long, _ := m.gap(max(more, 0))
	if more < 0 {
		_, long = m.gap(-more)
	}
	m.settle(m.clock.At(now), taken, more, long)
}

func (m *paced) Done(_, _ time.Time, _ int64, _ Outcome) {}

// Left is the whole amount if the next unit may be taken now: all may go at once, and the
// following units wait for it.
func (m *paced) Left(now time.Time) int64 {
	v := m.clock.At(now)
	if v < m.nextAt {
		return 0
	}
	return m.amount
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
func (m *paced) replay() {
	m.last, m.nextAt = 0, 0
	for i := range m.spent.count {
		t := m.spent.at(i)
		up, _ := m.gap(t.n)
		m.last, m.nextAt = t.at, min(plus(max(m.nextAt, t.at), up), t.at+m.window)
	}
}

func (m *paced) past(now time.Time) ([]Spent, int64, int64) {
	return m.spent.spent(m.clock.At(now)), 0, 0
}

func (m *paced) carry(now time.Time, list []Spent) {
	m.spent.takeAll(m.clock.At(now), list)
	m.replay()
}

func (m *paced) become(_ time.Time, to Meter, list []Spent) Meter {
	fresh, same := to.(*paced)
	if !same {
		return nil
	}
	m.amount, m.window = fresh.amount, fresh.window
	if len(list) > 0 {
		m.replay()
	}
	return m
}
