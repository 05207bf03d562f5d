package limit

import "time"

// firstUse allows amount in a window that opens with the first request after the previous
// window's end.
//
// A window with openedWith 0 holds debts only: the next take opens it again, and the debts
// count in it.
//
// When it is not known when the server's window began, the takes of every interval of that length
// count, as for rolling, until nothing was taken for so long.
type firstUse struct {
	counter
	clock      Clock
	amount     int64
	window     int64
	used       int64 // in the window; may exceed amount: the following windows owe the rest
	openedWith int64 // the part of used that was taken at the start
	start      int64
	end        int64 // 0: no window is open
	unknown    bool  // until end it is not known when the server's window began
}

func (m *firstUse) at(now time.Time) int64 {
	v := m.clock.At(now)
	if m.end == 0 || v < m.end {
		return v
	}
	windows := 1 + (v-m.end)/m.window
	m.used, m.openedWith, m.unknown = remainingDebt(m.used, m.amount, windows), 0, false
	if m.used > 0 {
		m.end += windows * m.window
		m.start = m.end - m.window
	} else {
		m.end = 0
	}
	return v
}

// lasts returns for how long a take counts where the server's window is not known: it may arrive late.
func (m *firstUse) lasts() int64 { return m.window + margin(m.window) }

// recent returns the units that count at a time where the server's window is not known.
func (m *firstUse) recent(v int64) (n int64) {
	for i := m.spent.count - 1; i >= 0 && m.spent.at(i).at > v-m.lasts(); i-- {
		n = min(n+m.spent.at(i).n, maxAmount)
	}
	return n
}

func (m *firstUse) earlier(t time.Time) (v int64, known bool) { return m.clock.past(t) }

func (m *firstUse) most() int64 { return m.amount }

func (m *firstUse) when(v, n int64) int64 {
	if m.unknown {
		over := m.recent(v) + n - m.amount
		for i := m.spent.find(v - m.lasts() + 1); over > 0; i++ {
			v, over = m.spent.at(i).at+m.lasts(), over-m.spent.at(i).n
		}
		return v
	}
	if over := m.used + n - m.amount; over > 0 {
		if late := (over - 1) / m.amount; late <= (FarFuture-m.end)/m.window {
			return m.end + late*m.window
		}
		return FarFuture
	}
	return v
}

func (m *firstUse) take(v, n int64) {
	if m.unknown { // the history has it
		m.lose(v)
		return
	}
	if m.end == 0 || m.openedWith == 0 {
		m.start, m.end = v, v+m.window
	}
	if v == m.start {
		m.openedWith = min(m.openedWith+n, maxAmount)
	}
	m.used = min(m.used+n, maxAmount)
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
	switch {
	case n <= 0 || m.end == 0:
	case m.unknown:
		m.lose(v)
	case !known || at <= m.start:
		m.end = max(m.end, v+m.window)
	}
}

// Give may concern the request that opened the window. If others followed, the server's window began
// with one of them.
func (m *firstUse) Give(now, taken time.Time, n int64) {
	v := m.at(now)
	at, known := m.clock.past(taken)
	if n = amount(n); n == 0 {
		return
	}
	if known {
		m.spent.remove(at, n)
	}
	if !known || m.unknown || m.end == 0 || at < m.start {
		m.lose(v) // it may have opened an earlier window
		return
	}
	m.used = max(m.used-n, 0)
	if at > m.start || m.openedWith == 0 {
		return
	}
	if m.openedWith = max(m.openedWith-n, 0); m.openedWith == 0 {
		m.lose(v)
	}
}

// Done may concern a request that opened the window. The server's window began when that arrived, if it did.
func (m *firstUse) Done(now, taken time.Time, n int64, o Outcome) {
	v := m.at(now)
	switch at, known := m.clock.past(taken); {
	case n <= 0 || m.end == 0 || m.unknown || known && at > m.start:
	case !o.arrived():
		m.lose(v)
	case known:
		m.end = max(m.end, min(v, at+margin(m.window))+m.window)
	}
}

func (m *firstUse) more(v, _, n int64) {
	if m.unknown {
		m.lose(v)
		return
	}
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

func (m *firstUse) left(v int64) int64 {
	if m.unknown {
		return m.amount - m.recent(v)
	}
	return m.amount - m.used
}

func (m *firstUse) idle(int64) bool { return m.end == 0 }

func (m *firstUse) State() []byte {
	b := newState(FirstUse, m.clock.last, &m.spent)
	b.int(m.amount)
	b.int(m.used)
	b.int(m.openedWith)
	rest, unknown := int64(0), int64(0)
	if m.end != 0 {
		rest = min(max(m.end-m.clock.last, 1), maxWindowNanos)
	}
	if m.unknown {
		unknown = 1
	}
	b.int(rest)
	b.int(unknown)
	return b
}

func (m *firstUse) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(FirstUse, state)
	before, used, opener := d.between(1, maxAmount), d.between(0, maxAmount), d.between(0, maxAmount)
	rest, unknown := d.between(0, maxWindowNanos), d.between(0, 1)
	if err := d.done(); err != nil {
		return err
	}
	if rest == 0 && used+opener+unknown > 0 {
		return errState
	}
	rest = min(rest, m.lasts())
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.used = spent, usedAfterChange(used, before, m.amount)
	m.openedWith, m.unknown, m.end = opener, unknown == 1, 0
	if rest > 0 {
		m.end = last + by + rest
		m.start = m.end - m.window
	}
	m.at(now)
	return nil
}

// lose has the takes in the history count, the last of which was at a time, as it is not known when the server's window
// began.
func (m *firstUse) lose(v int64) {
	m.used, m.openedWith, m.end, m.unknown = 0, 0, v+m.lasts(), true
}

func (m *firstUse) replay(v int64, list []Spent) {
	if sum(list, m.lasts()) > 0 {
		m.lose(v - int64(list[len(list)-1].Ago))
	}
}

func (m *firstUse) counted(v int64) (within, units int64) {
	return v - m.start + 2*m.window, m.used // some may be owed
}

// become keeps the open window if its length did not grow.
func (m *firstUse) become(now time.Time, to Meter, list []Spent) Meter {
	fresh := to.(*firstUse)
	if m.at(now) >= m.end && fresh.window > m.window {
		return nil
	}
	if m.end != 0 && !m.unknown {
		m.used = max(usedAfterChange(m.used, m.amount, fresh.amount), min(sum(list, fresh.window), fresh.amount))
	}
	if m.end != 0 {
		m.end += fresh.window - m.window // the window may have opened later than at its start
	}
	m.amount, m.window = fresh.amount, fresh.window
	return m
}
