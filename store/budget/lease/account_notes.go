package lease

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// AddNote sends a note with the next Batch, unless it contains nothing new.
func (a *Account) AddNote(now time.Time, n store.Note) {
	at := a.clock.at(now)
	if a.notes.update(now, n) {
		a.notes.send(n)
		a.announceDue(at.low)
	}
}

// ReceiveNotes takes notes from the store, with or without an answer, and returns those
// that are new. Notes of an answer should be taken before Receive, which may let requests
// go.
func (a *Account) ReceiveNotes(now time.Time, notes []store.Note) (news []store.Note) {
	a.notes.receive(now, notes)
	news, a.notes.news = a.notes.news, nil
	return news
}

// FetchNotes tells that there may be new notes: the next Batch fetches them.
func (a *Account) FetchNotes(now time.Time) {
	at := a.clock.at(now)
	a.notes.fetch = true
	a.announceDue(at.low)
}

// ClockFault returns what was wrong with the store's clock since the last call.
func (a *Account) ClockFault() ClockFault {
	off := a.store.fault
	a.store.fault = ClockFault{}
	return off
}

// Loans returns what was taken without the store since the last call.
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
		loan := p.takeLoan()
		if loan.N == 0 {
			continue
		}
		loan.Away = time.Duration(a.awayFor)
		i := slices.IndexFunc(a.loans, func(l Loan) bool { return l.Key == loan.Key })
		if i < 0 {
			a.loans = append(a.loans, loan)
			continue
		}
		loan.N += a.loans[i].N
		a.loans[i] = loan
	}
}
