package limit

import "time"

// firstUse is at most amount in a window that opens with the first request after
// the last one ended.
//
// A window without an opener holds what is owed: the next take opens it anew, and
// what is owed counts in it.
type firstUse struct {
	clock  steady
	spent  past
	amount int64
	window int64
	used   int64 // more than amount: the rest is owed by the windows after
	opener int64 // what of it was taken at the very start
	start  int64
	latest int64 // when something was taken last
	before int64 // when the window before this one opened
	end    int64 // 0: no window is open
	shut   bool  // nothing more in this window
}

func newFirstUse(s Spec) *firstUse {
	return &firstUse{amount: s.Amount, window: int64(s.Window)}
}

func (m *firstUse) at(now time.Time) int64 {
	v := m.clock.at(now)
	if m.end == 0 || v < m.end {
		return v
	}
	m.before = m.start
	windows := 1 + (v-m.end)/m.window
	m.used, m.opener, m.shut = owing(m.used, m.amount, windows), 0, false
	if m.used > 0 {
		m.end += windows * m.window
		m.start = m.end - m.window
	} else {
		m.end = 0
	}
	return v
}

func (m *firstUse) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.amount {
		return now, false
	}
	v := m.at(now)
	at := v
	if over := m.used + n - m.amount; over > 0 {
		at = edge
		if late := (over - 1) / m.amount; late <= (edge-m.end)/m.window {
			at = m.end + late*m.window
		}
	} else if m.shut {
		at = m.end
	}
	return later(now, at-v), true
}

func (m *firstUse) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.at(now)
	if m.end == 0 || m.opener == 0 && !m.shut {
		m.start, m.end = v, v+m.window
	}
	if m.shut {
		m.end = max(m.end, v+m.window)
	}
	if v == m.start {
		m.opener = min(m.opener+n, most)
	}
	m.latest, m.used = v, min(m.used+n, most)
	m.spent.add(v, n)
}

// Postpone may be about the request that opens the window: then that can open as
// late as now, and ends so much later.
func (m *firstUse) Postpone(now, taken time.Time, n int64) {
	v := m.at(now)
	at, known := m.clock.past(taken)
	if known {
		m.spent.back(at, n)
		m.spent.add(v, n)
	}
	if n > 0 && m.end != 0 && (!known || at <= m.start) {
		m.end = max(m.end, v+m.window)
	}
}

// Give may take away the request that opened the window. Then nobody knows when
// the server's window opened, if others followed: so nothing more goes before all
// of them have left any window. What went before Give and after the window that was
// never opened cannot be helped, so give back soon.
func (m *firstUse) Give(now, taken time.Time, n int64) {
	v := m.at(now)
	at, known := m.clock.past(taken)
	if n = amount(n); n == 0 {
		return
	}
	if !known {
		m.close(v, -1) // it may have opened any window
		return
	}
	m.spent.back(at, n)
	if m.end == 0 || at < m.start {
		// It may have opened the window before, or one before that.
		if at <= m.before {
			m.close(v, at)
		}
		return
	}
	m.used = max(m.used-n, 0)
	if at > m.start || m.opener == 0 {
		return
	}
	if m.opener = max(m.opener-n, 0); m.opener > 0 {
		return
	}
	if m.latest == m.start && m.used == 0 && !m.shut {
		m.end = 0
		return
	}
	m.close(v, at)
}

// close lets nothing go for as long as what followed a request that never was may
// still count.
func (m *firstUse) close(v, at int64) {
	if end := m.latest + m.window; m.latest > at && end > v {
		m.shut, m.end = true, max(m.end, end)
	}
}

func (m *firstUse) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.at(now)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		if m.end == 0 {
			m.start, m.end, m.opener = v, v+m.window, 0
		}
		m.used = min(m.used+more, most)
		m.spent.add(v, more)
	case more < 0:
		at, known := m.clock.past(taken)
		if !known {
			return
		}
		m.spent.back(at, -more)
		if m.end != 0 && at >= m.start {
			m.used = max(m.used+more, 0)
		}
	}
}

func (m *firstUse) Done(_, _ time.Time, _ int64, _ Outcome) {}

func (m *firstUse) Left(now time.Time) int64 {
	m.at(now)
	if m.shut {
		return 0
	}
	return max(m.amount-m.used, 0)
}

func (m *firstUse) Idle(now time.Time) bool {
	m.at(now)
	return m.end == 0
}

func (m *firstUse) State() []byte {
	b := newEncoder(FirstUse)
	b.int(m.clock.last)
	m.spent.append(&b)
	b.int(m.amount)
	b.int(m.used)
	b.int(m.opener)
	rest, shut := int64(0), int64(0)
	if m.end != 0 {
		rest = max(m.end-m.clock.last, 1)
	}
	if m.shut {
		shut = 1
	}
	b.int(rest)
	b.int(shut)
	return b
}

func (m *firstUse) Restore(now time.Time, state []byte) error {
	d := newDecoder(FirstUse, state)
	last := d.time(edge)
	spent := d.spent(last)
	before, used, opener := d.between(1, most), d.between(0, most), d.between(0, most)
	rest, shut := d.between(0, longest64), d.between(0, 1)
	if err := d.done(); err != nil {
		return err
	}
	if rest == 0 && used+opener+shut > 0 {
		return errState
	}
	rest = min(rest, m.window)
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.used = spent, lowered(used, before, m.amount)
	m.opener, m.shut, m.end = opener, shut == 1, 0
	if rest > 0 {
		m.end = last + by + rest
		m.start, m.latest = m.end-m.window, last+by
	}
	m.at(now)
	return nil
}
