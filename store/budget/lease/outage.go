package lease

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Outage is the rule of a shared meter while the store does not answer. Who adds a rule
// also changes String and allowed.
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

// Loan is the units taken of a limit without the store.
type Loan struct {
	Key       string
	Outage    Outage
	N, Amount int64
	Away      time.Duration // how long the store had been away
}

// lendable returns the units that may be taken now without the store, beyond the leases.
func (l *leases) lendable(at instant) int64 {
	if !l.lends(at) {
		return 0
	}
	if !l.known.set {
		l.guessPosition(at)
	}
	s, ok := l.span(at)
	if !ok {
		return 0
	}
	return max(l.allowed(at, s, l.hold(s.window))-l.owed, 0)
}

// lends tells whether units may be taken now without the store. When the store is back,
// that ends a while before other instances ask for units, so that loans are reported by
// then.
func (l *leases) lends(at instant) bool {
	switch {
	case l.outage == Strict:
		return false
	case l.unreadable, l.a.storeAway(at), l.a.returnedAt > 0 && at.low < l.a.returnedAt+int64(store.RecoveryTime)-second:
		return true
	}
	return l.outage == Open && l.a.noWantsBefore > at.low
}

// wantsFrom returns the time before which nothing may be wanted. After an outage other
// instances report their loans first.
func (l *leases) wantsFrom(at instant) int64 {
	low := max(l.a.noWantsBefore, l.record.settledAt, l.record.notBefore)
	if l.outage != Strict {
		low = max(low, l.a.settledAt(at))
	}
	return low
}

// mayWant tells whether an ask may want units. During an outage nobody knows the time at
// which the ask arrives, and the units that others have taken by then.
func (l *leases) mayWant(at instant) bool {
	return l.wantsFrom(at) <= at.low && !l.lentBeforeHeard() && (l.outage == Strict || !l.a.away)
}

// lentBeforeHeard tells whether units were taken without the store before its first answer.
// Leases of an earlier meter must be known first.
func (l *leases) lentBeforeHeard() bool { return l.record.past == allWindows && len(l.holds) > 0 }

// mayBeLent tells whether an answer's grant may have been taken without the store, by this
// or another instance, after the ask.
func (l *leases) mayBeLent(at instant, wanted bool) bool {
	return l.notSaid > 0 || l.outage != Strict && l.a.settledAt(at) > at.low && wanted
}

// allowed returns the units that the outage rule allows beyond hold h in a window.
func (l *leases) allowed(at instant, s span, h *hold) int64 {
	n, lent := int64(0), int64(0)
	if h != nil {
		n, lent = h.n, h.lent
	}
	if l.budget.slots > 0 { // sum up all slots that count
		n, lent = 0, 0
		for i := range l.holds {
			h := &l.holds[i]
			if h.endedBy+l.budget.countsFor() <= at.low {
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
	part := l.budget.amount / l.a.members()
	switch {
	case l.outage == Open:
		return max(l.budget.amount-n, 0)
	case at.low < l.known.endedBy+l.budget.countsFor():
		if h != nil {
			lent += max(h.n-h.used, 0)
		}
		return max(l.known.remaining/l.a.members()-lent, 0)
	}
	return max(part-n, 0)
}

// guessPosition assumes the position of a store with this machine's clock, until the first
// answer.
func (l *leases) guessPosition(at instant) {
	now := l.a.clock.time(at.low)
	window, since := l.budget.at(now)
	length := l.budget.length(window)
	end := at.low + length - since
	l.known = position{
		set: true, window: window, endedBy: end, until: end + at.high - at.low - margin(length),
		nextExpiry: end, heardAt: at.low, remaining: l.budget.amount,
	}
}

// Loans returns the units taken without the store since the last call.
func (a *Account) Loans() []Loan {
	loans := a.loans
	a.loans = nil
	return loans
}

// collectLoans collects the loans of all meters when an answer or an error has arrived.
func (a *Account) collectLoans(at instant) {
	if a.away {
		a.awayFor = at.low - a.awaySince
	} else if a.storeAway(at) {
		a.awayFor = at.low - a.waitStart(at)
	}
	for _, p := range a.ordered {
		m, ok := p.(*shared)
		if !ok || m.held.notReported == 0 {
			continue
		}
		loan := Loan{Key: m.key, Outage: m.held.outage, N: m.held.notReported, Amount: m.held.budget.amount, Away: time.Duration(a.awayFor)}
		m.held.notReported = 0
		i := slices.IndexFunc(a.loans, func(l Loan) bool { return l.Key == loan.Key })
		if i < 0 {
			a.loans = append(a.loans, loan)
			continue
		}
		loan.N += a.loans[i].N
		a.loans[i] = loan
	}
}
