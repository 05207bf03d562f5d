package lease

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// shared is a meter that counts what the store has leased to this instance. It never gives
// out more, and uses each lease only within its window. It is not safe for concurrent use;
// the account's lock guards it.
//
// Costs beyond the leases are owed, and are paid from the next lease first.
type shared struct {
	demand
	planned     int64
	inFlight    bool    // an ask is under way
	mustRestate bool    // what is held must be stated, whatever is wanted
	windowKnown bool    // the current store has reported the end of its window
	lastMinimum int64   // minimum of the last ask that had one
	aheadAsked  int64   // window for which units were asked for in advance
	wantedUnits bool    // the last ask wanted units
	unitsWaited bool    // units waited when it was made
	outside     outside // use by clients outside of the fleet
}

// newShared makes a meter that holds nothing.
func newShared(a *Account, key string, b budget, o Outage) *shared {
	m := &shared{planned: never}
	m.budget, m.a, m.key, m.outage = b, a, key, o
	return m
}

// Shared is the meter of a budget that the store divides between instances. It is nil for a
// limit that is not shareable. A meter made for the key before, with another spec, must not
// be used any more.
func (a *Account) Shared(key string, spec limit.Spec, o Outage) limit.Meter {
	b, ok := shareable(spec)
	if !ok {
		return nil
	}
	m := newShared(a, key, b, o)
	m.past = allWindows
	if old, found := a.sources[key].(*shared); found {
		amount := m.amount
		if old.compatible(&b) {
			*m = *old
			m.amount, m.outage = amount, o
		}
		m.inFlight, m.mustRestate = false, true
		m.planned = never
		a.add(m)
		a.schedule(m, a.clock.highest)
	}
	return m
}

// Change replaces the limit by another with the same windows.
func (m *shared) Change(now time.Time, spec limit.Spec, _ limit.Meter) bool {
	b, ok := shareable(spec)
	if !ok || !m.compatible(&b) {
		return false
	}
	m.amount, m.mustRestate = b.amount, true
	m.a.schedule(m, m.a.clock.at(now).low)
	return true
}

// Demand sets how many units wait for the meter and cannot be taken.
func (m *shared) Demand(now time.Time, units int64) {
	at := m.a.clock.at(now)
	m.setWaiting(at, min(max(units, 0), maxAmount))
	if m.waiting == 0 {
		m.minimum = 0
	} else if low := m.due(at, false); low <= at.low {
		m.a.schedule(m, low)
	}
}

// recordShortage records that n units cannot be taken.
func (m *shared) recordShortage(at instant, n int64) {
	m.minimum = n
	m.setWaiting(at, max(m.waiting, n))
	switch {
	case m.inFlight:
	case m.wantsFrom(at) > at.low:
		m.a.schedule(m, m.wantsFrom(at))
	case m.pollAt > at.low:
		m.a.schedule(m, m.pollAt)
	default:
		if n, from := m.reservedLater(at); n > 0 {
			m.a.schedule(m, from)
			return
		}
		if low := m.due(at, false); low > at.low {
			m.a.schedule(m, low) // nothing to ask before
			return
		}
		m.a.setWaiting(m, at)
	}
}

func (m *shared) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.amount {
		return now, false
	}
	at := m.a.clock.at(now)
	wait := int64(0)
	if m.available(at) < n {
		m.recordShortage(at, n)
		if m.available(at)+m.lendable(at) < n {
			wait = max(m.availableAt(at, n)-at.low, 1)
		}
	}
	if wait > 0 {
		return now.Add(time.Duration(wait)), true
	}
	return now, true
}

func (m *shared) Take(now time.Time, n int64) {
	if n = min(max(n, 0), maxAmount); n == 0 {
		return
	}
	at := m.a.clock.at(now)
	m.lastUnits = n
	waited := min(m.waiting, n)
	m.waiting -= waited
	m.rate.add(at.low, n-waited)
	m.spend(at, n)
	if m.waiting == 0 {
		m.minimum = 0
	}
}

// spend takes n units from the leases, then from what may be taken without the store, and
// owes the rest.
func (m *shared) spend(at instant, n int64) {
	m.lastTake, m.fruitlessReturns = at.low, 0
	if more := n - m.available(at); more > 0 {
		m.lend(at, min(more, m.lendable(at)))
	}
	last := m.present(at)
	for i := range m.holds { // use the hold that ends first
		if h := &m.holds[i]; h.usable(at) {
			if x := min(n, h.free(at)); x > 0 {
				h.take(at.low, x)
				n -= x
			}
		}
	}
	if last != nil {
		m.planAfterTake(at, last)
	}
	if n > 0 {
		if m.owed == 0 {
			m.since = at.low
		}
		m.owed = min(m.owed+n, maxAmount)
		m.a.schedule(m, at.low)
	}
}

// planAfterTake plans the next ask after a take: for more units before they run out, or to
// return the rest.
func (m *shared) planAfterTake(at instant, h *hold) {
	switch {
	case m.inFlight:
	case m.available(at) < h.askBelow:
		h.askBelow /= 2
		if low := m.due(at, false); low <= at.low {
			m.a.schedule(m, low)
			return
		}
		fallthrough
	case m.planned == never:
		m.a.schedule(m, m.due(at, false))
	}
}

func (m *shared) Give(now, taken time.Time, n int64) {
	m.giveBack(now, taken, n)
}

// giveBack returns n units to the hold they were taken from, if known. Of two possible
// holds it takes the first: units of the other count longer.
func (m *shared) giveBack(now, taken time.Time, n int64) {
	at := m.a.clock.at(now)
	n = min(max(n, 0), maxAmount)
	low, known := m.a.clock.past(taken)
	if !known || n == 0 {
		return
	}
	for i := range m.holds {
		if h := &m.holds[i]; h.took(low) {
			x := min(n, h.used)
			h.used -= x
			n -= x
		}
	}
	if m.owed > 0 && low >= m.since {
		m.owed = max(m.owed-n, 0)
	}
	m.present(at)
	m.a.schedule(m, m.due(at, false))
}

func (m *shared) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *shared) Settle(now, taken time.Time, estimate, actual int64) {
	switch more := min(max(actual, 0), maxAmount) - min(max(estimate, 0), maxAmount); {
	case more > 0:
		m.spend(m.a.clock.at(now), more)
	case more < 0:
		m.giveBack(now, taken, -more)
	}
}

// Done does nothing: each lease ends early enough for requests in flight.
func (m *shared) Done(time.Time, time.Time, int64, limit.Outcome) {}

// Left is what can be taken without asking the store.
func (m *shared) Left(now time.Time) int64 {
	at := m.a.clock.at(now)
	return m.available(at) + m.lendable(at)
}

// Rest is an upper bound of what this instance could take, as far as it knows: its leases,
// and the units left by the store's last answer.
func (m *shared) Rest(now time.Time) int64 {
	at := m.a.clock.at(now)
	rest := m.amount
	if m.known.set && m.known.endedBy > at.low {
		rest = m.known.remaining
	}
	return max(min(rest+m.available(at)-m.owed, m.amount), 0)
}

// State is nil: the store has the state.
func (m *shared) State() []byte { return nil }

// Restore does nothing.
func (m *shared) Restore(time.Time, []byte) error { return nil }

func (m *shared) Idle(now time.Time) bool {
	return m.forgettable(m.a.clock.at(now))
}

// lend takes n units without a grant. They are reported when the store is back.
func (m *shared) lend(at instant, n int64) {
	s, ok := m.span(at)
	if n <= 0 || !ok {
		return
	}
	h := m.open(s.window, hold{from: at.low, until: s.until, endedBy: s.endedBy})
	h.n, h.lent = h.n+n, h.lent+n
	m.notSaid, m.notReported = m.notSaid+n, m.notReported+n
	m.mustRestate = true
	m.a.schedule(m, at.low)
}

// Away tells whether the store is away and the outage rule allows nothing without it. It
// implements queue.Remote.
func (m *shared) Away(now time.Time) bool {
	at := m.a.clock.at(now)
	return m.a.storeAway(at) && m.available(at)+m.lendable(at) <= 0
}

// takeLoan is what was taken without the store since the last call.
func (m *shared) takeLoan() Loan {
	n := m.notReported
	m.notReported = 0
	return Loan{Key: m.key, Outage: m.outage, N: n, Amount: m.amount}
}
