package limit

import (
	"math"
	"time"
)

// fixed is at most amount in each window aligned to the clock. Windows have one
// width, or are those of a calendar.
//
// When the clock goes back, the window becomes longer: it ends at an edge, after
// no less time than was left of it. So no window is shorter than its width,
// however often the clock goes to and fro, and none is twice as long.
//
// What is in flight over an edge, and for no longer than the margin, may have
// arrived before it or after: it counts in both windows.
type fixed struct {
	as       As
	clock    wall
	spent    past
	amount   int64
	width    int64     // of a calendar's windows, the longest
	calendar *calendar // nil: every width since 1970
	used     int64     // more than amount: the rest is owed by the windows after
	late     int64     // of used, what is in flight and may arrive after the end
	opened   int64     // when this window was first seen
	end      int64     // 0: not yet
}

func newFixed(s Spec) *fixed {
	return &fixed{as: Fixed, amount: s.Amount, width: int64(s.Window)}
}

// after is the first edge after t.
func (m *fixed) after(t int64) int64 {
	if m.calendar != nil {
		return m.calendar.after(t)
	}
	return (t/m.width + 1) * m.width
}

// at is the time, and opens the window that it is in.
func (m *fixed) at(now time.Time) int64 {
	v, back := m.clock.at(now)
	if m.end == 0 {
		m.opened, m.end = v, m.after(v)
		return v
	}
	if back > 0 {
		m.spent.move(-back)
		rest := min(m.end-v-back, m.width)
		m.end = m.after(v + rest - 1)
	}
	if v >= m.end {
		m.used = owing(m.used, m.amount, m.passed(v))
		next := m.after(v)
		if m.after(m.end) == next {
			m.used += m.late
		}
		m.opened, m.end, m.late = v, next, 0
	}
	return v
}

// passed is how many windows have ended by v, as far as anything was owed.
func (m *fixed) passed(v int64) int64 {
	if m.calendar == nil {
		return 1 + (v-m.end)/m.width
	}
	n := int64(1)
	for t := m.after(m.end); t <= v && n*m.amount < m.used; t = m.after(t) {
		n++
	}
	return n
}

// owing is what remains of used after a number of windows that allow amount each.
func owing(used, amount, windows int64) int64 {
	if windows > used/amount {
		return 0
	}
	return used - windows*amount
}

func (m *fixed) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.amount {
		return now, false
	}
	v := m.at(now)
	at := v
	if over := m.used + n - m.amount; over > 0 {
		at = m.later((over - 1) / m.amount)
	}
	return later(now, at-v), true
}

// later is the end of the window that is n after this one.
func (m *fixed) later(n int64) int64 {
	if n > (edge-m.end)/m.width {
		return edge
	}
	if m.calendar == nil {
		return m.end + n*m.width
	}
	if n > 1000 {
		return edge
	}
	t := m.end
	for range n {
		t = m.after(t)
	}
	return t
}

func (m *fixed) Take(now time.Time, n int64) {
	v := m.at(now)
	m.spend(v, n)
	if m.isLate(v) {
		m.late = min(m.late+amount(n), m.used)
	}
}

func (m *fixed) spend(v, n int64) {
	m.used = min(m.used+amount(n), most)
	m.spent.add(v, amount(n))
}

// isLate tells whether what is taken at a time may arrive after the window.
func (m *fixed) isLate(at int64) bool { return at >= m.opened && at >= m.end-margin(m.width) }

func (m *fixed) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *fixed) Give(now, taken time.Time, n int64) {
	m.at(now)
	at, known := m.clock.past(taken)
	if n = amount(n); known && at >= m.opened {
		m.used = max(m.used-n, 0)
		m.landed(at, n)
	}
	if known {
		m.spent.back(at, n)
	}
}

// GiveRestored is Give to a meter that was restored since n were taken. The state has them,
// as with a budget of which several processes restore the same state again and again.
func GiveRestored(now, taken time.Time, m Meter, n int64) {
	if f, is := m.(*fixed); is {
		f.opened = min(f.opened, f.begins(f.at(now)))
	}
	m.Give(now, taken, n)
}

// landed says that of what was taken at a time, so much is not in flight any more.
func (m *fixed) landed(at, n int64) {
	if m.isLate(at) {
		m.late = max(m.late-n, 0)
	}
}

func (m *fixed) Settle(now, taken time.Time, estimate, actual int64) {
	if more := amount(actual) - amount(estimate); more > 0 {
		m.spend(m.at(now), more)
	} else if more < 0 {
		m.Give(now, taken, -more)
	}
}

func (m *fixed) Done(now, taken time.Time, n int64, _ Outcome) {
	m.at(now)
	if at, known := m.clock.past(taken); known {
		m.landed(at, amount(n))
	}
}

func (m *fixed) Left(now time.Time) int64 {
	m.at(now)
	return max(m.amount-m.used, 0)
}

func (m *fixed) Idle(now time.Time) bool {
	m.at(now)
	return m.used == 0
}

func (m *fixed) State() []byte {
	b := newEncoder(m.as)
	b.int(m.clock.last)
	m.spent.append(&b)
	b.int(m.amount)
	b.int(m.used)
	b.int(max(m.end-m.clock.last, 0))
	b.int(m.late)
	return b
}

func (m *fixed) Restore(now time.Time, state []byte) error {
	d := newDecoder(m.as, state)
	last := d.time(edge)
	spent := d.spent(last)
	before, used := d.between(1, most), d.between(0, most)
	rest, late := d.between(0, 2*longest64), d.between(0, used)
	if err := d.done(); err != nil {
		return err
	}
	m.spent, m.used = spent, lowered(used, before, m.amount)
	m.late = min(late, m.used)
	m.clock = wall{last: last, set: true}
	m.end = m.after(last + max(min(rest, m.width), 1) - 1)
	m.at(now)
	// Nothing that was taken before is given back now.
	m.opened, m.late, m.clock.fog = m.clock.last, 0, math.MinInt64
	return nil
}

// lowered is used after the amount has changed. What was taken within the old
// amount fills the new one at most: only what was owed is owed still.
func lowered(used, before, amount int64) int64 {
	return min(used, before, amount) + max(used-before, 0)
}
