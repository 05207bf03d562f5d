package limit

import (
	"math"
	"time"
)

const (
	// exact is the number of takes up to which rolling remembers each.
	exact = 1024
	// slices is into how many parts of the window takes are put together when there
	// are more. The latest time in a slice stands for all of it, so what was put
	// together ends late, by at most one part.
	slices = 512
)

// rolling is at most amount in every interval of one window. What was taken at t
// arrives by the time it is done at d, so it counts in [t, d+window); while it is
// in flight as if d were t+margin, which is also the latest that d counts for.
//
// What is owed, because something cost more than was left, is taken as soon as
// there is room, before anything else: so used is more than amount only after the
// limit was lowered.
type rolling struct {
	clock  steady
	spent  past
	amount int64
	window int64
	due    int64 // nothing lands or ends before
	used   int64 // the sum of air and takes
	owed   int64 // more than 0 only while used is at least amount
	air    ring  // in flight for no longer than the margin, in order of time
	coarse int64 // what is in the air up to here may have been put together
	takes  ring  // the others, in order of the time from which they count
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
	return later(now, max(at, v)-v), true
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
	for i := range m.takes.len() {
		t := m.takes.at(i)
		if n -= t.n; n <= 0 {
			return t.at + m.window + late
		}
	}
	return m.clock.last + m.window + late // as soon as what is in the air can have ended
}

// expire brings what is in flight for too long to the other takes, and forgets
// what no longer counts at v, in the order in which it happens.
func (m *rolling) expire(v int64) {
	for v >= m.due {
		land, end := int64(math.MaxInt64), int64(math.MaxInt64)
		if m.air.len() > 0 {
			land = m.air.at(0).at + margin(m.window)
		}
		if m.takes.len() > 0 {
			end = m.takes.at(0).at + m.window
		}
		switch {
		case min(land, end) > v:
			m.due = min(land, end)
		case land <= end:
			m.put(land, m.air.at(0).n)
			m.air.drop()
		case m.skip(v):
		default:
			m.used -= m.takes.at(0).n
			m.takes.drop()
			m.repay(end)
		}
	}
}

// skip passes over whole windows in which only what is owed was taken, at once.
func (m *rolling) skip(v int64) bool {
	if m.owed < m.amount || m.used != m.amount || m.air.len() > 0 {
		return false
	}
	newest := m.takes.at(m.takes.len() - 1).at
	rounds := min(m.owed/m.amount, (v-newest)/m.window)
	if rounds <= 0 {
		return false
	}
	m.owed -= rounds * m.amount
	m.takes.shift(rounds * m.window)
	return true
}

// put remembers that n, which is in used already, counts from v, which is not
// before anything else.
func (m *rolling) put(v, n int64) {
	if n == 0 {
		return
	}
	if k := m.takes.len(); k > 0 && m.takes.at(k-1).at >= v { // a reload may make the margin smaller
		m.takes.at(k - 1).n += n
		return
	}
	if m.takes.len() == exact {
		m.takes.fold(m.slice())
	}
	m.takes.push(take{v, n})
	m.due = min(m.due, v+m.window)
}

// fly remembers that n was taken at v.
func (m *rolling) fly(v, n int64) {
	if k := m.air.len(); k > 0 && m.air.at(k-1).at == v {
		m.air.at(k - 1).n += n
		return
	}
	if m.air.len() == exact/2 {
		m.air.fold(m.slice())
		m.coarse = m.air.at(m.air.len() - 1).at
	}
	m.air.push(take{v, n})
	m.due = min(m.due, v+margin(m.window))
}

// add takes n, as far as there is room, and leaves it to remember to put or fly.
func (m *rolling) add(v, n int64, remember func(*rolling, int64, int64)) {
	if room := min(n, m.amount-m.used); room > 0 {
		m.used += room
		remember(m, v, room)
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
	m.add(v, n, (*rolling).fly)
	m.spent.add(v, n)
}

func (m *rolling) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *rolling) Give(now, taken time.Time, n int64) {
	v := m.clock.at(now)
	m.expire(v)
	at, known := m.clock.past(taken)
	if n = amount(n); !known || n == 0 {
		return
	}
	m.spent.back(at, n)
	m.back(v, at, n)
}

// back takes n away from what was taken at a time. Where it no longer counts
// there is nothing to take away: its neighbour is another's.
func (m *rolling) back(v, at, n int64) {
	late := at + margin(m.window)
	if at <= m.coarse && late <= v || late+m.window <= v {
		return // nobody knows when it landed, or it counts no more
	}
	t := m.flying(at)
	if t == nil {
		t = m.takes.near(late, m.slice())
	}
	if t == nil {
		return
	}
	x := min(n, t.n)
	t.n -= x
	m.used -= x
	m.clear()
	m.repay(v)
}

// clear forgets what was first in the air and has all landed, so that what is
// looked for in the air is near. What was put together is left: it could not be
// told from its neighbour.
func (m *rolling) clear() {
	for m.air.len() > 0 {
		if t := m.air.at(0); t.n > 0 || t.at <= m.coarse {
			return
		}
		m.air.drop()
	}
}

// flying is what was taken at a time and is in the air, or nil. It may have been
// put together with what was taken a little later.
func (m *rolling) flying(at int64) *take {
	slice := int64(0)
	if at <= m.coarse {
		slice = m.slice()
	}
	return m.air.near(at, slice)
}

// repay takes what is owed as far as there is room.
func (m *rolling) repay(v int64) {
	if room := min(m.owed, m.amount-m.used); room > 0 {
		m.owed -= room
		m.used += room
		m.put(v, room)
	}
}

func (m *rolling) slice() int64 { return max(m.window/slices, 1) }

func (m *rolling) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.clock.at(now)
	m.expire(v)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		m.add(v, more, (*rolling).put)
		m.spent.add(v, more)
	case more < 0:
		if at, known := m.clock.past(taken); known {
			m.spent.back(at, -more)
			m.back(v, at, -more)
		}
	}
}

// Done counts a take from now on: by now its request has arrived.
func (m *rolling) Done(now, taken time.Time, n int64, _ Outcome) {
	v := m.clock.at(now)
	m.expire(v)
	at, known := m.clock.past(taken)
	if !known {
		return
	}
	if t := m.flying(at); t != nil {
		x := min(amount(n), t.n)
		t.n -= x
		m.clear()
		m.put(v, x)
	}
}

func (m *rolling) Left(now time.Time) int64 {
	v := m.clock.at(now)
	m.expire(v)
	return max(m.amount-m.used-m.owed, 0)
}

func (m *rolling) Idle(now time.Time) bool {
	v := m.clock.at(now)
	m.expire(v)
	return m.used == 0 && m.owed == 0
}

// The state has the times of takes as steps back from the latest, and after them
// those in the air.
func (m *rolling) State() []byte {
	m.expire(m.clock.last)
	b := newEncoder(Rolling)
	b.int(m.clock.last)
	m.spent.append(&b)
	b.int(m.owed)
	m.takes.append(&b, m.clock.last)
	m.air.append(&b, m.clock.last)
	return b
}

func (m *rolling) Restore(now time.Time, state []byte) error {
	d := newDecoder(Rolling, state)
	last := d.time(edge)
	spent := d.spent(last)
	owed := d.between(0, most)
	takes, air := d.takes(last, exact), d.takes(last, exact/2)
	if total(takes)+total(air) > most {
		d.fail()
	}
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.owed, m.used, m.takes, m.air, m.coarse, m.due = spent, owed, 0, ring{}, ring{}, 0, 0
	for _, t := range takes {
		m.used += t.n
		m.put(t.at+by, t.n)
	}
	for _, t := range air { // they ended with the process, which is now at the latest
		m.used += t.n
		m.put(min(t.at+by+margin(m.window), m.clock.last), t.n)
	}
	m.repay(last + by)
	return nil
}
