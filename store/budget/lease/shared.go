package lease

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

// shared is a meter that counts what the store has leased to this instance. It never gives
// out more, and uses each lease only within its window. It is not safe for concurrent use;
// the account's lock guards it.
//
// Costs beyond the leases are owed, and are paid from the next lease first.
type shared struct {
	a           *Account
	src         *source
	held        *leases
	demand      demand
	windowKnown bool    // the current store has reported the end of its window
	aheadAsked  int64   // window for which units were asked for in advance
	outside     outside // use by clients outside of the fleet

	want, least, waits int64 // of the last ask
}

// newShared makes a meter that holds nothing.
func newShared(a *Account, s *source, b budget, o Outage) *shared {
	held := &leases{a: a, budget: b, outage: o}
	m := &shared{a: a, src: s, held: held, demand: demand{a: a, held: held}}
	s.meter = m
	return m
}

// Shared makes the meter of a budget that the store divides between instances. It is nil
// for a limit that is not shareable. A meter made for the key before is changed, or must not be used
// any more.
func (a *Account) Shared(key string, spec limit.Spec, o Outage) limit.Meter {
	b, ok := shareable(spec)
	if !ok {
		return nil
	}
	s := a.source(key)
	if m, found := s.meter.(*shared); found && m.held.budget.compatible(&b) {
		m.held.outage = o
		m.setAmount(b.amount, a.clock.highest)
		return m
	}
	s.asked = 0 // the answer is about other windows
	m := newShared(a, s, b, o)
	m.held.record.past = allWindows
	return m
}

// Change replaces the limit by another with the same windows.
func (m *shared) Change(now time.Time, spec limit.Spec, _ limit.Meter) bool {
	b, ok := shareable(spec)
	if !ok || !m.held.budget.compatible(&b) {
		return false
	}
	m.setAmount(b.amount, m.a.clock.at(now).low)
	return true
}

func (m *shared) setAmount(n, low int64) {
	m.held.budget.amount, m.src.mustRestate = n, true
	m.a.schedule(m.src, low)
}

// Demand sets how many units wait for the meter and cannot be taken.
func (m *shared) Demand(now time.Time, units int64) {
	at := m.a.clock.at(now)
	m.demand.setWaiting(at, min(max(units, 0), maxAmount))
	if m.demand.waiting == 0 {
		m.demand.minimum = 0
	} else {
		m.a.schedule(m.src, m.due(at))
	}
}

// recordShortage records that n units cannot be taken.
func (m *shared) recordShortage(at instant, n int64) {
	m.demand.minimum = n
	m.demand.setWaiting(at, max(m.demand.waiting, n))
	if low := m.due(at); low > at.low {
		m.a.schedule(m.src, low) // nothing to ask before
	} else {
		m.a.setWaiting(m.src, at)
	}
}

func (m *shared) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.held.budget.amount {
		return now, false
	}
	at := m.a.clock.at(now)
	wait := int64(0)
	if m.held.available(at) < n {
		m.recordShortage(at, n)
		if m.held.available(at)+m.held.lendable(at) < n {
			wait = max(m.availableAt(at, n)-at.low, 1)
		}
	}
	return now.Add(time.Duration(wait)), true
}

// Asks tells whether n units cannot be taken only because the store's answer is pending. It
// implements queue.Remote.
func (m *shared) Asks(now time.Time, n int64) bool {
	at := m.a.clock.at(now)
	switch {
	case n <= 0, n > m.held.budget.amount, m.held.available(at)+m.held.lendable(at) >= n:
		return false
	case m.held.betweenWindows(at), m.demand.storeEmpty(at), m.held.unreadable:
		return false
	case m.a.noWantsBefore > at.low:
		return true // others have not stated their leases yet
	case m.a.away, m.held.budget.kind == store.Rolling && m.demand.pollAt > at.low:
		return false
	}
	reserved, _ := m.held.reservedLater(at)
	return reserved == 0 || m.src.asked != 0 || 2*reserved < m.demand.waiting
}

func (m *shared) Take(now time.Time, n int64) {
	if n = min(max(n, 0), maxAmount); n == 0 {
		return
	}
	at := m.a.clock.at(now)
	m.demand.lastUnits = n
	waited := min(m.demand.waiting, n)
	m.demand.waiting -= waited
	m.demand.rate.add(at.low, n-waited)
	m.spend(at, n)
	if m.demand.waiting == 0 {
		m.demand.minimum = 0
	}
}

// spend takes n units from the leases, then from what may be taken without the store, and
// owes the rest.
func (m *shared) spend(at instant, n int64) {
	m.demand.lastTake, m.demand.fruitlessReturns = at.low, 0
	if shortage := n - m.held.available(at); shortage > 0 {
		m.lend(at, min(shortage, m.held.lendable(at)))
	}
	last := m.held.present(at)
	for i := range m.held.holds { // use the hold that ends first
		if h := &m.held.holds[i]; h.usable(at) {
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
		if m.held.owed == 0 {
			m.held.since = at.low
		}
		m.held.owed = min(m.held.owed+n, maxAmount)
		m.a.schedule(m.src, at.low)
	}
}

// planAfterTake plans the next ask after a take: for more units before they run out, or to
// return the rest.
func (m *shared) planAfterTake(at instant, h *hold) {
	if short := m.held.available(at) < h.askBelow; m.src.asked == 0 && (short || m.src.planned == never) {
		if short {
			h.askBelow /= 2
		}
		m.a.schedule(m.src, m.due(at))
	}
}

// Give returns n units to the hold they were taken from, if known. Of two possible
// holds it takes the first: units of the other count longer.
func (m *shared) Give(now, taken time.Time, n int64) {
	at := m.a.clock.at(now)
	n = min(max(n, 0), maxAmount)
	low, known := m.a.clock.past(taken)
	if !known || n == 0 {
		return
	}
	for i := range m.held.holds {
		if h := &m.held.holds[i]; h.took(low) {
			x := min(n, h.used)
			h.used -= x
			n -= x
		}
	}
	if m.held.owed > 0 && low >= m.held.since {
		m.held.owed = max(m.held.owed-n, 0)
	}
	m.held.present(at)
	m.a.schedule(m.src, m.due(at))
}

func (m *shared) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *shared) Settle(now, taken time.Time, estimate, actual int64) {
	switch extra := min(max(actual, 0), maxAmount) - min(max(estimate, 0), maxAmount); {
	case extra > 0:
		m.spend(m.a.clock.at(now), extra)
	case extra < 0:
		m.Give(now, taken, -extra)
	}
}

// Done does nothing: each lease ends early enough for requests in flight.
func (m *shared) Done(time.Time, time.Time, int64, limit.Outcome) {}

// Left returns the units that can be taken without asking the store.
func (m *shared) Left(now time.Time) int64 {
	at := m.a.clock.at(now)
	return m.held.available(at) + m.held.lendable(at)
}

// Rest returns an upper bound of the units that this instance could take, as far as it
// knows: its leases, and the units left by the store's last answer.
func (m *shared) Rest(now time.Time) int64 {
	at := m.a.clock.at(now)
	left, known := m.held.budget.amount, &m.held.known
	if !known.set || known.endedBy+m.held.budget.countsFor() > at.low {
		left = known.remaining // 0 before the first answer
	}
	return max(min(left+m.held.available(at)-m.held.owed, m.held.budget.amount), 0)
}

// State is nil: the store has the state.
func (m *shared) State() []byte { return nil }

// Restore does nothing.
func (m *shared) Restore(time.Time, []byte) error { return nil }

func (m *shared) Idle(now time.Time) bool {
	return m.src.forgettable(m.a.clock.at(now))
}

// lend takes n units without a grant. They are reported when the store is back.
func (m *shared) lend(at instant, n int64) {
	s, ok := m.held.span(at)
	if n <= 0 || !ok {
		return
	}
	h := m.held.open(s.window, hold{from: at.low, until: s.until, endedBy: s.endedBy})
	h.n, h.lent = h.n+n, h.lent+n
	m.held.notSaid, m.held.notReported = m.held.notSaid+n, m.held.notReported+n
	m.src.mustRestate = true
	m.a.schedule(m.src, at.low)
}

func (m *shared) loan() Loan {
	n := m.held.notReported
	m.held.notReported = 0
	return Loan{Key: m.src.name, Outage: m.held.outage, N: n, Amount: m.held.budget.amount}
}

// Away tells whether the store is away and the outage rule allows nothing without it. It
// implements queue.Remote.
func (m *shared) Away(now time.Time) bool {
	at := m.a.clock.at(now)
	return m.a.storeAway(at) && m.held.available(at)+m.held.lendable(at) <= 0
}

// OthersUse reports whether other instances use the budget, by the store's last answer.
func (m *shared) OthersUse() bool { return m.held.known.set && m.held.known.holders > 1 }
