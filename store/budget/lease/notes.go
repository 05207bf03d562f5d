package lease

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// noteExchange has the notes of a site: those to send, and those received.
type noteExchange struct {
	outgoing []store.Note          // for the next Batch
	known    map[string]store.Note // sent or received before
	fetch    bool                  // there may be new notes in the store
}

// update remembers notes, and returns those that are new.
func (t *noteExchange) update(now time.Time, notes ...store.Note) (news []store.Note) {
	if t.known == nil && len(notes) > 0 {
		t.known = map[string]store.Note{}
	}
	return store.MergeNotes(t.known, notes, now)
}

func (t *noteExchange) waiting() bool { return len(t.outgoing) > 0 || t.fetch }

func (t *noteExchange) take() []store.Note {
	said := t.outgoing
	t.outgoing, t.fetch = nil, false
	return said
}

// resend puts notes back that may not have arrived.
func (t *noteExchange) resend(lost []store.Note) {
	t.fetch = true // so that a Batch is made, which finds the store again
	for _, n := range lost {
		if !slices.ContainsFunc(t.outgoing, func(newer store.Note) bool { return newer.Key == n.Key }) {
			t.outgoing = append(t.outgoing, n)
		}
	}
}

// AddNote sends a note with the next Batch, unless it contains nothing new.
func (a *Account) AddNote(now time.Time, n store.Note) {
	at := a.clock.at(now)
	for _, n := range a.notes.update(now, n) {
		t := &a.notes
		t.outgoing = slices.DeleteFunc(t.outgoing, func(old store.Note) bool { return old.Key == n.Key })
		t.outgoing = append(t.outgoing, n)
		a.announceDue(at.low)
	}
}

// ReceiveNotes takes notes from the store, with or without an answer, and returns those
// that are new. Notes of an answer have to be taken before Receive, which may let requests
// go.
func (a *Account) ReceiveNotes(now time.Time, notes []store.Note) (news []store.Note) {
	return a.notes.update(now, notes...)
}

// FetchNotes tells that there may be new notes: the next Batch fetches them.
func (a *Account) FetchNotes(now time.Time) {
	at := a.clock.at(now)
	a.notes.fetch = true
	a.announceDue(at.low)
}
