package limit

import "time"

// firstUse allows amount in a window that opens with the first request after the previous
// window's end.
//
// A window with openedWith 0 holds debts only: the next take opens it again, and the debts
// count in it.
type firstUse struct {
	counter
	clock         Clock
	amount        int64
	window        int64
	used          int64 // may exceed amount: the following windows owe the rest
	openedWith    int64 // the part of used that was taken at the start
	start         int64
	lastTake      int64 // time of the last take
	lastSent      int64 // when a request was sent last of those that were sent after their take
	previousStart int64 // start of the previous window
	end           int64 // 0: no window is open
	closed        bool  // nothing may be taken in this window
}

func (m *firstUse) at(now time.Time) int64 {
	v := m.clock.At(now)
	if m.end == 0 || v < m.end {
		return v
	}
	m.previousStart = m.start
	windows := 1 + (v-m.end)/m.window
	m.used, m.openedWith, m.closed = remainingDebt(m.used, m.amount, windows), 0, false
	if m.used > 0 {
		m.end += windows * m.window
		m.start = m.end - m.window
	} else {
		m.end = 0
	}
	return v
}

func (m *firstUse) earlier(t time.Time) (v int64, known bool) { return m.clock.past(t) }

func (m *firstUse) most() int64 { return m.amount }

func (m *firstUse) when(v, n int64) int64 {
	if over := m.used + n - m.amount; over > 0 {
		if late := (over - 1) / m.amount; late <= (FarFuture-m.end)/m.window {
			return m.end + late*m.window
		}
		return FarFuture
	}
	if m.closed {
		return m.end
	}
	return v
}

func (m *firstUse) take(v, n int64) {
	if m.end == 0 || m.openedWith == 0 && !m.closed {
		m.start, m.end = v, v+m.window
	}
	if m.closed {
		m.end = max(m.end, v+m.window)
	}
	if v == m.start {
		m.openedWith = min(m.openedWith+n, maxAmount)
	}
	m.lastTake, m.used = v, min(m.used+n, maxAmount)
}

// Postpone may concern the request that opens the window: the window may then open as late
// as now.
func (m *firstUse) Postpone(now, taken time.Time, n int64) {
	v := m.at(now)
	at, known := m.clock.past(taken)
	if known {
		m.spent.remove(at, n)
		m.spent.add(v, n)
	}
	if n > 0 && m.end != 0 && (!known || at <= m.start || m.closed) {
		m.end = max(m.end, v+m.window)
	}
	m.lastSent = v
}

// Give may concern the request that opened the window. If others followed, the start of the
// server's window is unknown: so nothing goes until they have left any possible window.
// Requests sent before Give and after that unopened window cannot be undone, so call Give
// soon.
func (m *firstUse) Give(now, taken time.Time, n int64) {
	v := m.at(now)
	at, known := m.clock.past(taken)
	if n = amount(n); n == 0 {
		return
	}
	if !known {
		m.close(v, -1) // the request may have opened any window
		return
	}
	m.spent.remove(at, n)
	if m.end == 0 || at < m.start {
		// The request may have opened an earlier window.
		if at <= m.previousStart {
			m.close(v, at)
		}
		return
	}
	m.used = max(m.used-n, 0)
	if at > m.start || m.openedWith == 0 {
		return
	}
	if m.openedWith = max(m.openedWith-n, 0); m.openedWith > 0 {
		return
	}
	if m.lastTake == m.start && m.used == 0 && !m.closed {
		m.end = 0
		return
	}
	m.close(v, at)
}

// close allows nothing while requests after an unsent request may still count.
func (m *firstUse) close(v, at int64) {
	if end := max(m.lastTake, m.lastSent) + m.window; m.lastTake > at && end > v {
		m.closed, m.end = true, max(m.end, end)
	}
}

func (m *firstUse) more(v, _, n int64) {
	if m.end == 0 {
		m.start, m.end, m.openedWith = v, v+m.window, 0
	}
	m.used = min(m.used+n, maxAmount)
}

func (m *firstUse) less(_, at, n int64) {
	if m.end != 0 && at >= m.start {
		m.used = max(m.used-n, 0)
	}
}

func (m *firstUse) left(int64) int64 {
	if m.closed {
		return 0
	}
	return m.amount - m.used
}

func (m *firstUse) idle(int64) bool { return m.end == 0 }

func (m *firstUse) State() []byte {
	b := newState(FirstUse, m.clock.last, &m.spent)
	b.int(m.amount)
	b.int(m.used)
	b.int(m.openedWith)
	rest, shut := int64(0), int64(0)
	if m.end != 0 {
		rest = max(m.end-m.clock.last, 1)
	}
	if m.closed {
		shut = 1
	}
	b.int(rest)
	b.int(shut)
	return b
}

func (m *firstUse) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(FirstUse, state)
	before, used, opener := d.between(1, maxAmount), d.between(0, maxAmount), d.between(0, maxAmount)
	rest, shut := d.between(0, maxWindowNanos), d.between(0, 1)
	if err := d.done(); err != nil {
		return err
	}
	if rest == 0 && used+opener+shut > 0 {
		return errState
	}
	rest = min(rest, m.window)
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.used = spent, usedAfterChange(used, before, m.amount)
	m.openedWith, m.closed, m.end = opener, shut == 1, 0
	if rest > 0 {
		m.end = last + by + rest
		m.start, m.lastTake = m.end-m.window, last+by
	}
	m.at(now)
	return nil
}

// replay opens a window that ends when the server certainly counts none of the takes. Its
// start is unknown: so the next take opens it again.
func (m *firstUse) replay(v int64, list []Spent) {
	n := sum(list, m.window)
	if n == 0 {
		return
	}
	m.lastTake = v - int64(list[len(list)-1].Ago)
	m.used, m.openedWith, m.start, m.end = min(n, m.amount), 0, m.lastTake, m.lastTake+m.window
}

func (m *firstUse) counted(v int64) (within, units int64) { return v - m.start + 2*m.window, m.used } // some may be taken over, or owed

// become keeps the open window if its length did not grow.
func (m *firstUse) become(now time.Time, to Meter, list []Spent) Meter {
	fresh := to.(*firstUse)
	if m.at(now) >= m.end && fresh.window > m.window {
		return nil
	}
	if m.end != 0 {
		m.used = max(usedAfterChange(m.used, m.amount, fresh.amount), min(sum(list, fresh.window), fresh.amount))
	}
	if m.end != 0 && !m.closed {
		m.end += fresh.window - m.window // the window may have opened later than at its start
	}
	m.amount, m.window = fresh.amount, fresh.window
	return m
}
