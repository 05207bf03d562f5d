package limit

import (
	"math"
	"time"
)

const (
	// maxExactTakes is the number of takes up to which rolling remembers each.
	maxExactTakes = 1024
	// maxSlices is into how many parts of the window takes are put together when there
	// are more. The latest time in a slice stands for all of it, so what was put
	// together ends late, by at most one part.
	maxSlices = 512
)

// rolling allows amount in every interval of one window. A take at t whose request is done
// at d counts in [t, d+window); while it is in flight as if d were t+margin, which is also
// the latest d that counts.
//
// Debts, from costs above the units left, are taken as soon as there are units, before
// anything else: so used exceeds amount only after the limit was lowered.
type rolling struct {
	counter
	clock      Clock
	amount     int64
	window     int64
	nextChange int64 // no take ends or leaves the window before
	used       int64 // sum of inFlight and takes
	owed       int64 // above 0 only while used is at least amount
	inFlight   ring  // in flight for at most the margin, by time
	mergedUpTo int64 // takes in flight up to here may have been merged
	takes      ring  // the others, by the time from which they count
}

// at is the time, with takes moved as expire does.
func (m *rolling) at(now time.Time) int64 {
	v := m.clock.At(now)
	m.expire(v)
	return v
}

func (m *rolling) earlier(t time.Time) (v int64, known bool) { return m.clock.past(t) }

func (m *rolling) most() int64 { return m.amount }

func (m *rolling) when(v, n int64) int64 {
	if free := m.used + m.owed + n - m.amount; free > 0 {
		return m.freed(free)
	}
	return v
}

// freed returns the time at which n units, counted or owed, have left the window.
func (m *rolling) freed(n int64) int64 {
	late := int64(0)
	if n > m.used {
		// Debts are taken when units leave, so the last amount of units repeats each
		// window.
		rounds := (n - m.used + m.amount - 1) / m.amount
		if rounds > (FarFuture-m.clock.last)/m.window {
			return FarFuture
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
	return m.clock.last + m.window + late // the earliest end of the takes in flight
}

// expire moves takes that are in flight for too long to takes, and removes those that no
// longer count at v, in order of time.
func (m *rolling) expire(v int64) {
	for v >= m.nextChange {
		land, end := int64(math.MaxInt64), int64(math.MaxInt64)
		if m.inFlight.len() > 0 {
			land = m.inFlight.at(0).at + margin(m.window)
		}
		if m.takes.len() > 0 {
			end = m.takes.at(0).at + m.window
		}
		switch {
		case min(land, end) > v:
			m.nextChange = min(land, end)
		case land <= end:
			m.addArrived(land, m.inFlight.at(0).n)
			m.inFlight.drop()
		case m.skip(v):
		default:
			m.used -= m.takes.at(0).n
			m.takes.drop()
			m.repay(end)
		}
	}
}

// skip passes over whole windows in which only debts were taken, in one step.
func (m *rolling) skip(v int64) bool {
	if m.owed < m.amount || m.used != m.amount || m.inFlight.len() > 0 {
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

// addArrived records n units, already in used, that count from v, the latest time so far.
func (m *rolling) addArrived(v, n int64) {
	if n == 0 {
		return
	}
	if k := m.takes.len(); k > 0 && m.takes.at(k-1).at >= v { // a reload may make the margin smaller
		m.takes.at(k - 1).n += n
		return
	}
	if m.takes.len() == maxExactTakes {
		m.takes.fold(m.slice())
	}
	m.takes.push(take{v, n})
	m.nextChange = min(m.nextChange, v+m.window)
}

// addInFlight records n units taken at v.
func (m *rolling) addInFlight(v, n int64) {
	if k := m.inFlight.len(); k > 0 && m.inFlight.at(k-1).at == v {
		m.inFlight.at(k - 1).n += n
		return
	}
	if m.inFlight.len() == maxExactTakes/2 {
		m.inFlight.fold(m.slice())
		m.mergedUpTo = m.inFlight.at(m.inFlight.len() - 1).at
	}
	m.inFlight.push(take{v, n})
	m.nextChange = min(m.nextChange, v+margin(m.window))
}

// add takes n units, as far as available, and passes them to remember.
func (m *rolling) add(v, n int64, remember func(*rolling, int64, int64)) {
	if room := min(n, m.amount-m.used); room > 0 {
		m.used += room
		remember(m, v, room)
		n -= room
	}
	m.owed = min(m.owed+n, maxAmount)
}

func (m *rolling) take(v, n int64) { m.add(v, n, (*rolling).addInFlight) }

func (m *rolling) more(v, _, n int64) { m.add(v, n, (*rolling).addArrived) }

// less removes n units from the take at a time, or from the first that count from then on: takes that were put
// together, or that processes have told each other, count from later than they were. What remains counts as long.
func (m *rolling) less(v, at, n int64) {
	if at+margin(m.window)+m.window <= v {
		return // it counts no more
	}
	rest := n
	if t := m.findInFlight(at); t != nil {
		rest = t.reduce(rest)
	}
	rest = m.inFlight.reduce(at, m.takes.reduce(at, rest))
	m.used -= n - rest
	m.dropArrived()
	m.repay(v)
}

// dropArrived removes leading takes in flight that have all arrived. Merged takes stay,
// because they cannot be distinguished from their neighbours.
func (m *rolling) dropArrived() {
	for m.inFlight.len() > 0 {
		if t := m.inFlight.at(0); t.n > 0 || t.at <= m.mergedUpTo {
			return
		}
		m.inFlight.drop()
	}
}

// findInFlight is the take at a time that is in flight, or nil. It may have been merged
// into a slightly later one.
func (m *rolling) findInFlight(at int64) *take {
	if i := m.inFlight.find(at); i < m.inFlight.count {
		if t := m.inFlight.at(i); t.at == at || at <= m.mergedUpTo && t.at/m.slice() == at/m.slice() {
			return t
		}
	}
	return nil
}

// repay takes debts as far as units are available.
func (m *rolling) repay(v int64) {
	if room := min(m.owed, m.amount-m.used); room > 0 {
		m.owed -= room
		m.used += room
		m.addArrived(v, room)
	}
}

func (m *rolling) slice() int64 { return max(m.window/maxSlices, 1) }

// Done counts a take from now on: its request has arrived.
func (m *rolling) Done(now, taken time.Time, n int64, o Outcome) {
	v := m.at(now)
	at, known := m.clock.past(taken)
	if !known || !o.arrived() {
		return
	}
	if t := m.findInFlight(at); t != nil {
		x := min(amount(n), t.n)
		t.n -= x
		m.dropArrived()
		m.addArrived(v, x)
	}
}

func (m *rolling) left(int64) int64 { return m.amount - m.used - m.owed }

func (m *rolling) idle(int64) bool { return m.used == 0 && m.owed == 0 }

// State has the times of takes as differences from the latest, followed by those in flight.
func (m *rolling) State() []byte {
	m.expire(m.clock.last)
	b := newState(Rolling, m.clock.last, &m.spent)
	b.int(m.owed)
	m.takes.append(&b, m.clock.last)
	m.inFlight.append(&b, m.clock.last)
	return b
}

func (m *rolling) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(Rolling, state)
	owed := d.between(0, maxAmount)
	takes, air := d.takes(last, maxExactTakes), d.takes(last, maxExactTakes/2)
	if total(takes)+total(air) > maxAmount {
		d.fail()
	}
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.owed, m.used, m.takes, m.inFlight, m.mergedUpTo, m.nextChange = spent, owed, 0, ring{}, ring{}, 0, 0
	for _, t := range takes {
		m.used += t.n
		m.addArrived(t.at+by, t.n)
	}
	for _, t := range air { // other processes restore the state while requests are in flight
		m.used += t.n
		m.addInFlight(t.at+by, t.n)
	}
	m.repay(last + by)
	return nil
}

// replay counts the takes of another limit until they leave the window.
func (m *rolling) replay(v int64, list []Spent) {
	m.takes, m.inFlight, m.used, m.owed, m.nextChange = ring{}, ring{}, 0, 0, 0
	for _, s := range list {
		// Assume the latest possible arrival.
		if at := min(v-int64(s.Ago)+margin(m.window), v); at > v-m.window {
			m.used += s.N
			m.addArrived(at, s.N)
		}
	}
}

func (m *rolling) counted(int64) (within, units int64) { // a take counts from its arrival
	return m.window + margin(m.window), m.used + m.owed
}

// become keeps the meter if the window did not grow: takes are remembered for long enough.
func (m *rolling) become(now time.Time, to Meter, _ []Spent) Meter {
	fresh := to.(*rolling)
	if fresh.window > m.window {
		return nil
	}
	m.amount, m.window, m.nextChange = fresh.amount, fresh.window, 0
	m.repay(m.clock.At(now))
	return m
}

const (
	// marginPart: a take may be in flight for window/marginPart before
	// it counts: so little that at least 99 % of the limit is used.
	marginPart = 128
	// minMargin is the margin of short windows, where the way to a server is
	// longer than that part.
	minMargin = int64(5 * time.Millisecond)
	// marginDivisor is the largest part of a window.
	marginDivisor = 8
)

// margin returns the time after Take within which a request may arrive so that the limit is kept. A take
// counts from when its request is done, but at most from a margin after it: a request may
// last for hours, and arrives early in that time. It is 1/128 of the window and at least 5
// ms, but at most an eighth of the window.
func margin(window int64) int64 {
	return min(max(window/marginPart, minMargin), window/marginDivisor)
}
