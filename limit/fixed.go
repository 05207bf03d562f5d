package limit

import (
	"cmp"
	"math"
	"time"
)

// fixed allows amount in each window aligned to the clock. Windows have one width, or are
// calendar periods.
//
// When the clock goes back, the window is extended: it ends at a boundary, after at least
// the time that was left of it. So no window is shorter than its width, however often the
// clock changes, and none is twice as long.
//
// Requests in flight over a boundary, for at most the margin, may have arrived before or
// after it: they count in both windows.
type fixed struct {
	counter
	as            As
	clock         wallClock
	amount        int64
	width         int64     // of a calendar's windows, the longest
	calendar      *calendar // nil: every width since 1970
	used          int64     // may exceed amount: the following windows owe the rest
	mayArriveLate int64     // part of used that is in flight and may arrive after the end
	opened        int64     // when this window was first seen
	end           int64     // 0: no window yet
	held          int64     // taken when a window begins
}

// Holder is a Meter with windows that begin with some units taken.
type Holder interface {
	// Hold sets the number of units that are taken when the next window begins, at most half of
	// all.
	Hold(n int64)
}

// Hold implements Holder.
func (m *fixed) Hold(n int64) { m.held = min(max(n, 0), m.amount/2) }

// after is the first boundary after t.
func (m *fixed) after(t int64) int64 {
	if m.calendar != nil {
		return m.calendar.after(t)
	}
	return (t/m.width + 1) * m.width
}

// at is the time, and opens the window of that time.
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
		m.used = m.held + remainingDebt(m.used, m.amount, m.passed(v))
		next := m.after(v)
		if m.after(m.end) == next {
			m.used += m.mayArriveLate
		}
		m.opened, m.end, m.mayArriveLate = v, next, 0
	}
	return v
}

// passed returns the number of windows that have ended by v, as far as anything was owed.
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

// remainingDebt returns the rest of used after a number of windows with amount each.
func remainingDebt(used, amount, windows int64) int64 {
	if windows > used/amount {
		return 0
	}
	return used - windows*amount
}

func (m *fixed) earlier(t time.Time) (v int64, known bool) { return m.clock.past(t) }

func (m *fixed) most() int64 { return m.amount }

func (m *fixed) when(v, n int64) int64 {
	if over := m.used + n - m.amount; over > 0 {
		return m.later((over - 1) / m.amount)
	}
	return v
}

// later is the end of the nth window after this one.
func (m *fixed) later(n int64) int64 {
	if n > (FarFuture-m.end)/m.width {
		return FarFuture
	}
	if m.calendar == nil {
		return m.end + n*m.width
	}
	if n > 1000 {
		return FarFuture
	}
	t := m.end
	for range n {
		t = m.after(t)
	}
	return t
}

func (m *fixed) take(v, n int64) {
	m.more(v, v, n)
	if m.isLate(v) {
		m.mayArriveLate = min(m.mayArriveLate+n, m.used)
	}
}

func (m *fixed) more(_, _, n int64) { m.used = min(m.used+n, maxAmount) }

// isLate tells whether a request taken at that time may arrive after the window.
func (m *fixed) isLate(at int64) bool { return at >= m.opened && at >= m.end-margin(m.width) }

func (m *fixed) less(_, at, n int64) {
	if at >= m.opened {
		m.used = max(m.used-n, 0)
		m.arrived(at, n)
		m.mayArriveLate = min(m.mayArriveLate, m.used) // the end of the window may be another than when it was taken
	}
}

// arrived records that n of the units taken at a time are not in flight any more.
func (m *fixed) arrived(at, n int64) {
	if m.isLate(at) {
		m.mayArriveLate = max(m.mayArriveLate-n, 0)
	}
}

func (m *fixed) Done(now, taken time.Time, n int64, o Outcome) {
	m.at(now)
	if at, known := m.clock.past(taken); known && o.arrived() {
		m.arrived(at, amount(n))
	}
}

func (m *fixed) left(int64) int64 { return m.amount - m.used }

func (m *fixed) idle(int64) bool { return m.used == 0 }

func (m *fixed) State() []byte {
	b := newState(m.as, m.clock.last, &m.spent)
	b.int(m.amount)
	b.int(m.used)
	b.int(max(m.end-m.clock.last, 0))
	b.int(m.mayArriveLate)
	return b
}

func (m *fixed) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(m.as, state)
	before, used := d.between(1, maxAmount), d.between(0, maxAmount)
	rest, late := d.between(0, 2*maxWindowNanos), d.between(0, used)
	if err := d.done(); err != nil {
		return err
	}
	m.spent, m.used = spent, usedAfterChange(used, before, m.amount)
	m.mayArriveLate = min(late, m.used)
	m.clock = wallClock{last: last, set: true}
	m.end = m.after(last + max(min(rest, m.width), 1) - 1)
	m.at(now)
	// Several processes restore the state again and again, and give back what they took before that.
	m.opened, m.clock.ambiguous = m.begins(m.clock.last), math.MinInt64
	return nil
}

// usedAfterChange is used after a change of the amount. Units within the old amount fill at
// most the new amount: only debts stay debts.
func usedAfterChange(used, before, amount int64) int64 {
	return min(used, before, amount) + max(used-before, 0)
}

// begins is the start of the window of a time.
func (m *fixed) begins(v int64) int64 {
	if m.calendar == nil {
		return v / m.width * m.width
	}
	t := max(v-m.width, 0)
	for next := m.after(t); next <= v; next = m.after(next) {
		t = next
	}
	return t
}

// WindowAt returns the window of the clock or the calendar that a time is in. It is zero for a limit without
// such windows.
func WindowAt(now time.Time, s Spec) (opens, ends time.Time) {
	s.Amount = 1
	m, _ := create(s)
	f, aligned := m.(*fixed)
	if !aligned {
		return opens, ends
	}
	now = now.Round(0)
	v := f.at(now)
	return now.Add(time.Duration(f.begins(v) - v)), now.Add(time.Duration(f.end - v))
}

// from takes over the counts of a meter with another spec of this kind.
func (m *fixed) from(now time.Time, old *fixed) {
	v := old.at(now)
	m.clock, m.spent = old.clock, old.spent
	m.used, m.opened = usedAfterChange(old.used, old.amount, m.amount), old.opened
	m.mayArriveLate = min(old.mayArriveLate, m.used)
	m.end = m.after(v)
	m.Hold(old.held)
	if m.width == old.width && m.calendar == nil {
		m.end = old.end // it may be extended, after the clock went back
	}
}

func (m *fixed) counted(v int64) (within, units int64) { return v - m.begins(v) + 1, m.used }

func (m *fixed) replay(v int64, list []Spent) {
	// Requests of just before this window may have arrived in it.
	m.used = min(sum(list, v-m.begins(v)+1+margin(m.width)), m.amount)
	m.opened = v // earlier units cannot be given back
	if v >= m.end-margin(m.width) {
		m.mayArriveLate = min(sum(list, margin(m.width)), m.used) // it may be in flight
	}
}

func (m *fixed) become(now time.Time, to Meter, list []Spent) Meter {
	fresh := to.(*fixed)
	if m.as != fresh.as {
		return nil
	}
	fresh.from(now, m)
	v := fresh.at(now)
	fresh.used = max(fresh.used, min(sum(list, v-fresh.begins(v)+1), fresh.amount))
	return fresh
}

// calendar has the boundaries of days, weeks or months at a location, including changes of
// its clocks.
type calendar struct {
	period   string
	location *time.Location
}

// newQuota makes a fixed with the windows of a calendar.
func newQuota(s Spec) *fixed {
	place := cmp.Or(s.Location, time.UTC)
	return &fixed{
		as: Quota, amount: s.Amount, width: int64(s.Length()),
		calendar: &calendar{period: s.Period, location: place},
	}
}

// after is the first boundary after t.
func (c *calendar) after(t int64) int64 {
	local := time.Unix(0, t).In(c.location)
	year, month, day := local.Date()
	switch c.period {
	case Week:
		day -= int(local.Weekday()+6) % 7
	case Month:
		day = 1
	}
	for {
		switch c.period {
		case Day:
			day++
		case Week:
			day += 7
		default:
			month++
		}
		// Several steps are needed if a day was skipped at the location.
		if start := c.start(year, month, day); start > t {
			return start
		}
	}
}

// start is the first time at which the clocks of the location show midnight of a date, or
// later. time.Date does not specify which time it returns if midnight occurs twice or not
// at all.
func (c *calendar) start(year int, month time.Month, day int) int64 {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	t := time.Unix(midnight-26*60*60, 0).In(c.location)
	for {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		first := max(midnight-int64(offset), t.Unix())
		if end.IsZero() || first < end.Unix() {
			return first * int64(time.Second)
		}
		t = end
	}
}
