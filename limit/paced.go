package limit

import (
	"math"
	"math/bits"
	"time"
)

// paced spaces units evenly, one every window/amount: after n units, nothing goes for n
// intervals.
type paced struct {
	counter
	spacing
}

// spacing holds units apart: after n units, nothing goes for n intervals.
type spacing struct {
	clock    Clock
	amount   int64 // the largest amount
	units    int64 // so many units
	long     int64 // in so many nanoseconds
	lastLong int64 // long at the last take; 0: nothing of it is freed
	before   int64 // time of the take before the last
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

func (m *spacing) at(now time.Time) int64 { return m.clock.At(now) }

func (m *spacing) earlier(t time.Time) (v int64, known bool) { return m.clock.past(t) }

func (m *spacing) most() int64 { return m.amount }

func (m *spacing) when(int64, int64) int64 { return m.nextAt }

func (m *spacing) take(v, n int64) {
	up, _ := m.gap(n, m.long)
	m.took(v)
	m.nextAt, m.lastLong = plus(max(m.nextAt, v), up), m.long
}

// took records the time of a take.
func (m *spacing) took(v int64) {
	if v > m.last {
		m.before, m.last = m.last, v
	}
}

// more lets the last take's own time go on from where it began. What others have gone since
// is owed from now on.
func (m *spacing) more(v, at, n int64) {
	up, _ := m.gap(n, m.long)
	if at < m.last {
		m.nextAt = max(m.nextAt, v)
	}
	m.nextAt = plus(m.nextAt, up)
}

// less frees intervals only if nothing was taken since: later takes have waited for them. Processes have told each
// other of takes later than they were.
func (m *spacing) less(_, at, n int64) {
	if at > m.before {
		_, down := m.gap(n, m.lastLong)
		m.nextAt = max(m.nextAt-down, m.last)
	}
}

// counted is nothing: only the time until the next unit counts.
func (m *spacing) counted(int64) (within, units int64) { return 0, 0 }

// left is the whole amount if the next unit may be taken now: all may go at once, and the
// following units wait for it.
func (m *paced) left(v int64) int64 {
	if v < m.nextAt {
		return 0
	}
	return m.amount
}

func (m *paced) idle(v int64) bool { return v >= m.nextAt }

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
	m.spent, m.before, m.last, m.nextAt = spent, 0, 0, plus(last+by, rest)
	for i := range m.spent.count {
		m.took(m.spent.at(i).at)
	}
	return nil
}

// replay waits as long as the takes would have required, but at most the window.
func (m *paced) replay(int64, []Spent) {
	m.before, m.last, m.nextAt = 0, 0, 0
	for i := range m.spent.count {
		t := m.spent.at(i)
		up, _ := m.gap(t.n, m.long)
		m.took(t.at)
		m.nextAt = min(plus(max(m.nextAt, t.at), up), t.at+m.long)
	}
}

func (m *paced) become(now time.Time, to Meter, list []Spent) Meter {
	fresh := to.(*paced)
	m.amount, m.units, m.long, m.lastLong = fresh.amount, fresh.units, fresh.long, fresh.long
	if len(list) > 0 {
		m.replay(m.at(now), list)
	}
	return m
}
