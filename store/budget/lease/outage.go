package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// Outage is the rule of a shared meter while the store does not answer. If you add a rule,
// also change String and allowed.
type Outage uint8

// The ways through an outage.
const (
	Share  Outage = iota // the units left at the last answer, divided by the number of members; then a member's part of each window
	Strict               // leased units only
	Open                 // the whole amount, by this instance alone
)

// String is the name in the configuration.
func (o Outage) String() string {
	switch o {
	case Strict:
		return "strict"
	case Open:
		return "open"
	}
	return "share"
}

// Loan is what was taken of a limit without the store.
type Loan struct {
	Key       string
	Outage    Outage
	N, Amount int64
	Away      time.Duration // how long the store had been away
}

// outageLoan calculates what may be taken without the store, by the outage rule.
type outageLoan struct {
	holdings
	outage      Outage
	unreadable  bool  // the store cannot read the budget's record
	notSaid     int64 // taken without the store since the last ask
	notReported int64 // taken without the store since the last Loan
}

// lendable is how much may be taken now without the store, beyond the leases.
func (m *outageLoan) lendable(at instant) int64 {
	if !m.lends(at) {
		return 0
	}
	if !m.known.set {
		m.guessPosition(at)
	}
	s, ok := m.span(at)
	if !ok {
		return 0
	}
	return max(m.allowed(at, s, m.hold(s.window))-m.owed, 0)
}

// lends tells whether units may be taken now without the store. When the store is back,
// that ends a while before other instances ask for units, so that loans are reported by
// then.
func (m *outageLoan) lends(at instant) bool {
	switch {
	case m.outage == Strict:
		return false
	case m.unreadable, m.a.storeAway(at), m.a.returnedAt > 0 && at.low < m.a.returnedAt+int64(store.RecoveryTime)-second:
		return true
	}
	return m.outage == Open && m.a.noWantsBefore > at.low
}

// wantsFrom is until when nothing may be wanted. After an outage other instances report
// their loans first.
func (m *outageLoan) wantsFrom(at instant) int64 {
	low := max(m.a.noWantsBefore, m.settledAt, m.notBefore)
	if m.outage != Strict {
		low = max(low, m.a.settledAt(at))
	}
	return low
}

// mayWant tells whether an ask may want units. During an outage it is unknown when the ask
// arrives and what others have taken by then.
func (m *outageLoan) mayWant(at instant) bool {
	return m.wantsFrom(at) <= at.low && !m.lentBeforeHeard() && (m.outage == Strict || !m.a.away)
}

// lentBeforeHeard tells whether units were taken without the store before its first answer.
// Leases of an earlier meter must be known first.
func (m *outageLoan) lentBeforeHeard() bool { return m.past == allWindows && len(m.holds) > 0 }

// mayBeLent tells whether an answer's grant may have been taken without the store, by this
// or another instance, after the ask.
func (m *outageLoan) mayBeLent(at instant, wanted bool) bool {
	return m.notSaid > 0 || m.outage != Strict && m.a.settledAt(at) > at.low && wanted
}

// allowed is what the outage rule allows beyond hold h in a window.
func (m *outageLoan) allowed(at instant, s span, h *hold) int64 {
	n, lent := int64(0), int64(0)
	if h != nil {
		n, lent = h.n, h.lent
	}
	if m.slots > 0 { // sum up all slots that count
		n, lent = 0, 0
		for i := range m.holds {
			h := &m.holds[i]
			if h.endedBy+m.countsFor() <= at.low {
				continue
			}
			lent += h.lent
			if h.window >= s.window {
				n += h.n
			} else {
				n += h.used
			}
		}
	}
	part := m.amount / m.a.members()
	switch {
	case m.outage == Open:
		return max(m.amount-n, 0)
	case at.low < m.known.endedBy+m.countsFor():
		if h != nil {
			lent += max(h.n-h.used, 0)
		}
		return max(m.known.remaining/m.a.members()-lent, 0)
	}
	return max(part-n, 0)
}

// guessPosition assumes the position of a store with this machine's clock, until the first
// answer.
func (m *outageLoan) guessPosition(at instant) {
	now := m.a.clock.time(at.low)
	window, since := m.at(now)
	length := m.length(window)
	end := at.low + length - since
	m.known = position{
		set: true, window: window, endedBy: end, until: end + at.high - at.low - margin(length),
		nextExpiry: end, heardAt: at.low, remaining: m.amount,
	}
}
