package lease

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Outage is what a shared meter does while the store does not answer.
type Outage uint8

// The ways through an outage.
const (
	Share  Outage = iota // what was left when the store was last heard, by the number of members; then their part of each window
	Strict               // only what is leased
	Open                 // the whole amount, by this instance alone
)

// String is the word for it in the configuration.
func (o Outage) String() string {
	switch o {
	case Strict:
		return "strict"
	case Open:
		return "open"
	}
	return "share"
}

// Loan is how much of a limit was taken without the store.
type Loan struct {
	Key       string
	Outage    Outage
	N, Amount int64
	Away      time.Duration // for how long the store had been away
}

// Loans are what was taken without the store since they were asked for last.
func (a *Account) Loans() []Loan {
	loans := a.loans
	a.loans = nil
	return loans
}

// tellLoans makes Loans of what was lent until now, when an answer or an error has come.
func (a *Account) tellLoans(at instant) {
	if a.away {
		a.lasted = at.low - a.awaySince
	} else if a.alone(at) {
		a.lasted = at.low - a.asked(at)
	}
	for _, p := range a.order {
		m, is := p.(*shared)
		if !is || m.untold == 0 {
			continue
		}
		loan := Loan{m.key, m.outage, m.untold, m.amount, time.Duration(a.lasted)}
		m.untold = 0
		i := slices.IndexFunc(a.loans, func(l Loan) bool { return l.Key == m.key })
		if i < 0 {
			a.loans = append(a.loans, loan)
			continue
		}
		loan.N += a.loans[i].N
		a.loans[i] = loan
	}
}

// lendable is how much may be taken now without the store, beside what is leased.
func (m *shared) lendable(at instant) int64 {
	if !m.lends(at) {
		return 0
	}
	if !m.known.set {
		m.guess(at)
	}
	s, ok := m.span(at)
	if !ok {
		return 0
	}
	return max(m.allowed(at, s, m.hold(s.window))-m.owed, 0)
}

// lends tells whether something may be taken now without the store. When it is there
// again, that ends a while before others want something of it: what was lent is said by
// then.
func (m *shared) lends(at instant) bool {
	switch {
	case m.outage == Strict:
		return false
	case m.broken, m.a.alone(at), m.a.returned > 0 && at.low < m.a.returned+int64(store.Settling)-second:
		return true
	}
	return m.outage == Open && m.a.settled > at.low
}

// Away tells whether the store is away and the outage rule gives nothing without it. It is
// queue.Remote's.
func (m *shared) Away(now time.Time) bool {
	at := m.a.clock.at(now)
	return m.a.alone(at) && m.room(at)+m.lendable(at) <= 0
}

// settled is until when nothing is wanted. When the store was away, others have lent
// something as well, and say so first.
func (m *shared) settled(at instant) int64 {
	low := max(m.a.settled, m.settles, m.bar)
	if m.outage != Strict {
		low = max(low, m.a.settling(at))
	}
	return low
}

// mayWant tells whether an ask may want anything. While the store is away nobody knows
// when an ask will reach it, and what others have lent by then.
func (m *shared) mayWant(at instant) bool {
	return m.settled(at) <= at.low && !m.hides() && (m.outage == Strict || !m.a.away)
}

// hides tells whether something was lent before the store was heard at all. What a meter
// before this one had is to be known first.
func (m *shared) hides() bool { return m.past == everything && len(m.holds) > 0 }

// doubts tells whether what an answer grants may have been lent by somebody, this
// instance or another one, after it was asked for.
func (m *shared) doubts(at instant) bool {
	return m.unsaid > 0 || m.outage != Strict && m.a.settling(at) > at.low && (m.wanted || m.forward != 0)
}

// allowed is what the outage rule allows more in a window of which h is held.
func (m *shared) allowed(at instant, s span, h *hold) int64 {
	n, lent := int64(0), int64(0)
	if h != nil {
		n, lent = h.n, h.lent
	}
	if m.slots > 0 { // all that counts
		n, lent = 0, 0
		for i := range m.holds {
			h := &m.holds[i]
			if h.over+m.counts() <= at.low {
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
	case at.low < m.known.over+m.counts():
		if h != nil {
			lent += max(h.n-h.used, 0)
		}
		return max(m.known.remaining/m.a.members()-lent, 0)
	}
	return max(part-n, 0)
}

// lend takes up n that nobody granted. It is said to the store when that is back.
func (m *shared) lend(at instant, n int64) {
	s, ok := m.span(at)
	if n <= 0 || !ok {
		return
	}
	h := m.open(s.window, hold{from: at.low, until: s.until, over: s.over})
	h.n, h.lent = h.n+n, h.lent+n
	m.unsaid, m.untold = m.unsaid+n, m.untold+n
	m.again = true
	m.a.stir(m, at.low)
}

// guess is where a store would be that has the time of this machine, for as long as
// none was heard.
func (m *shared) guess(at instant) {
	now := m.a.clock.time(at.low)
	window, since := m.at(now)
	length := m.length(window)
	end := at.low + length - since
	m.known = position{
		set: true, window: window, over: end, until: end + at.high - at.low - margin(length),
		free: end, at: at.low, remaining: m.amount,
	}
}
