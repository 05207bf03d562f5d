package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// noteExchange has the notes of a site: those to send, and those received.
type noteExchange struct {
	outgoing []store.Note          // for the next Batch
	known    map[string]store.Note // sent or received before
	news     []store.Note
	fetch    bool // there may be new notes in the store
}

// update remembers a note, and tells whether it is new.
func (t *noteExchange) update(now time.Time, n store.Note) bool {
	old, known := t.known[n.Key]
	if known && !n.Replaces(old) && old.Until.After(now) {
		return false
	}
	if t.known == nil {
		t.known = map[string]store.Note{}
	}
	t.known[n.Key] = n
	return true
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

func (t *noteExchange) receive(now time.Time, notes []store.Note) {
	maps.DeleteFunc(t.known, func(_ string, n store.Note) bool { return !n.Until.After(now) })
	for _, n := range notes {
		if n.Until.After(now) && t.update(now, n) {
			t.news = append(t.news, n)
		}
	}
}

// AddNote sends a note with the next Batch, unless it contains nothing new.
func (a *Account) AddNote(now time.Time, n store.Note) {
	at := a.clock.at(now)
	if t := &a.notes; t.update(now, n) {
		t.outgoing = slices.DeleteFunc(t.outgoing, func(old store.Note) bool { return old.Key == n.Key })
		t.outgoing = append(t.outgoing, n)
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
