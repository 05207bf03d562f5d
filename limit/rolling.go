package limit

import "time"

const (
	// exact is the number of takes up to which rolling remembers each.
	exact = 1024
	// slices is into how many parts of the window takes are put together when there
	// are more. The latest time in a slice stands for all of it, so what was put
	// together ends late, by at most one part.
	slices = 512
)

// rolling is at most amount in every interval of one window: what was taken at t
// counts in [t, t+window).
//
// What is owed, because something cost more than was left, is taken as soon as
// there is room, before anything else: so used is more than amount only after the
// limit was lowered.
type rolling struct {
	clock  steady
	told   told
	amount int64
	window int64
	used   int64 // the sum of takes
	owed   int64 // more than 0 only while used is at least amount
	takes  ring  // in order of time
}

func newRolling(s Spec) *rolling {
	return &rolling{amount: s.Amount, window: int64(s.Window)}
}

func (m *rolling) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.amount {
		return now, false
	}
	v := m.clock.at(now)
	m.expire(v)
	at := v
	if free := m.used + m.owed + n - m.amount; free > 0 {
		at = m.freed(free)
	}
	return now.Add(time.Duration(m.told.when(max(at, v), n) - v)), true
}

// freed is when n units that count now, or will because they are owed, have ended.
func (m *rolling) freed(n int64) int64 {
	late := int64(0)
	if n > m.used {
		// What is owed follows what has ended, so the pattern of the last amount of
		// units repeats each window.
		rounds := (n - m.used + m.amount - 1) / m.amount
		if rounds > (edge-m.clock.last)/m.window {
			return edge
		}
		n -= rounds * m.amount
		late = rounds * m.window
	}
	at := m.clock.last
	for i := range m.takes.len() {
		t := m.takes.at(i)
		at = t.at
		if n -= t.n; n <= 0 {
			break
		}
	}
	return at + m.window + late
}

// expire forgets what no longer counts at v.
func (m *rolling) expire(v int64) {
	for m.takes.len() > 0 {
		first := m.takes.at(0)
		end := first.at + m.window
		if end > v {
			return
		}
		if m.owed >= m.amount && m.used == m.amount {
			// Whole windows in which only what is owed was taken, at once.
			newest := m.takes.at(m.takes.len() - 1).at
			if rounds := min(m.owed/m.amount, (v-newest)/m.window); rounds > 0 {
				m.owed -= rounds * m.amount
				m.takes.shift(rounds * m.window)
				continue
			}
		}
		m.used -= first.n
		m.takes.drop()
		m.repay(end)
	}
}

// put remembers that n was taken at v, which is not before anything else.
func (m *rolling) put(v, n int64) {
	m.used += n
	if k := m.takes.len(); k > 0 && m.takes.at(k-1).at == v {
		m.takes.at(k - 1).n += n
		return
	}
	if m.takes.len() == exact {
		m.takes.fold(m.slice())
	}
	m.takes.push(take{v, n})
}

func (m *rolling) add(v, n int64) {
	if room := min(n, m.amount-m.used); room > 0 {
		m.put(v, room)
		n -= room
	}
	m.owed = min(m.owed+n, most)
}

func (m *rolling) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.clock.at(now)
	m.expire(v)
	m.add(v, n)
	m.told.take(v, n)
}

func (m *rolling) Give(now, taken time.Time, n int64) {
	v := m.clock.at(now)
	m.expire(v)
	at, known := m.clock.past(taken)
	if n = amount(n); !known || n == 0 {
		return
	}
	m.told.give(v, at, n)
	m.back(v, at, n)
}

// back takes n away from what was taken at a time, which may have been put
// together with what was taken a little later. Where it no longer counts there is
// nothing to take away: its neighbour is another's.
func (m *rolling) back(v, at, n int64) {
	i := m.takes.find(at)
	if at+m.window <= v || i == m.takes.len() {
		return
	}
	t := m.takes.at(i)
	if t.at != at && t.at/m.slice() != at/m.slice() {
		return
	}
	x := min(n, t.n)
	t.n -= x
	m.used -= x
	m.repay(v)
}

// repay takes what is owed as far as there is room.
func (m *rolling) repay(v int64) {
	if room := min(m.owed, m.amount-m.used); room > 0 {
		m.owed -= room
		m.put(v, room)
	}
}

func (m *rolling) slice() int64 { return max(m.window/slices, 1) }

func (m *rolling) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.clock.at(now)
	m.expire(v)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		m.add(v, more)
		m.told.take(v, more)
	case more < 0:
		if at, known := m.clock.past(taken); known {
			m.told.give(v, at, -more)
			m.back(v, at, -more)
		}
	}
}

func (m *rolling) Done(time.Time, int64, Outcome) {}

func (m *rolling) Observe(now time.Time, o Observation) {
	m.told.hear(m.clock.at(now), o, m.clock.ahead)
}

func (m *rolling) Left(now time.Time) int64 {
	v := m.clock.at(now)
	m.expire(v)
	return m.told.remaining(v, max(m.amount-m.used-m.owed, 0))
}

func (m *rolling) Idle(now time.Time) bool {
	v := m.clock.at(now)
	m.expire(v)
	return m.used == 0 && m.owed == 0 && m.told.idle(v)
}

// The state has the times of takes as steps back from the latest.
func (m *rolling) State() []byte {
	m.expire(m.clock.last)
	b := newEncoder(Rolling)
	b.int(m.clock.last)
	m.told.append(&b)
	b.int(m.owed)
	b.int(int64(m.takes.len()))
	at := m.clock.last
	for i := m.takes.len() - 1; i >= 0; i-- {
		t := m.takes.at(i)
		b.int(at - t.at)
		b.int(t.n)
		at = t.at
	}
	return b
}

func (m *rolling) Restore(now time.Time, state []byte) error {
	d := newDecoder(Rolling, state)
	last := d.time(edge)
	var heard told
	heard.read(d, last)
	owed := d.between(0, most)
	count := d.between(0, min(exact, int64(len(d.rest)))) // a take is two bytes at least
	takes := make([]take, count)
	at := last
	for i := count - 1; i >= 0; i-- {
		if at -= d.between(0, longest64); at < 0 {
			return errState
		}
		takes[i] = take{at, d.between(0, most)}
	}
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	heard.shift(by)
	m.told, m.owed, m.used, m.takes = heard, owed, 0, ring{}
	for _, t := range takes {
		m.put(t.at+by, t.n)
	}
	m.repay(last + by)
	return nil
}
