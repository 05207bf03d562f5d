package lease

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// talk is the notes of a site: what is to be said, and what was heard.
type talk struct {
	said  []store.Note          // with the next Batch
	known map[string]store.Note // said or heard before
	news  []store.Note
	poked bool // somebody has news
}

// newer tells whether a note says more than one that is known. It is as in the store.
func newer(n, old store.Note) bool {
	switch by := n.Until.Sub(old.Until); {
	case by > time.Second:
		return true
	case by < -time.Second:
		return false
	}
	return n.N > old.N
}

// learn remembers a note, and tells whether it was news.
func (t *talk) learn(now time.Time, n store.Note) bool {
	old, known := t.known[n.Key]
	if known && !newer(n, old) && old.Until.After(now) {
		return false
	}
	if t.known == nil {
		t.known = map[string]store.Note{}
	}
	t.known[n.Key] = n
	return true
}

func (t *talk) say(n store.Note) {
	t.said = slices.DeleteFunc(t.said, func(old store.Note) bool { return old.Key == n.Key })
	t.said = append(t.said, n)
}

func (t *talk) waiting() bool { return len(t.said) > 0 || t.poked }

func (t *talk) take() []store.Note {
	said := t.said
	t.said, t.poked = nil, false
	return said
}

// again is for notes that may not have arrived.
func (t *talk) again(lost []store.Note) {
	t.poked = true // or nobody would notice that the store is there again
	for _, n := range lost {
		if !slices.ContainsFunc(t.said, func(newer store.Note) bool { return newer.Key == n.Key }) {
			t.said = append(t.said, n)
		}
	}
}

func (t *talk) hear(now time.Time, notes []store.Note) {
	for key, n := range t.known {
		if !n.Until.After(now) {
			delete(t.known, key)
		}
	}
	for _, n := range notes {
		if n.Until.After(now) && t.learn(now, n) {
			t.news = append(t.news, n)
		}
	}
}

// Note goes with the next Batch, unless it says nothing new.
func (a *Account) Note(now time.Time, n store.Note) {
	at := a.clock.at(now)
	if a.talk.learn(now, n) {
		a.talk.say(n)
		a.ring(at.low)
	}
}

// Told says what the store has told, with an answer or before one, and returns what of
// it is news. In an answer it is worth hearing before Hear lets anything go.
func (a *Account) Told(now time.Time, notes []store.Note) (news []store.Note) {
	a.talk.hear(now, notes)
	return a.News()
}

// Poke says that there may be news: the next Batch asks for them, whether or not there
// is something to say.
func (a *Account) Poke(now time.Time) {
	at := a.clock.at(now)
	a.talk.poked = true
	a.ring(at.low)
}

// News are the notes that came, each once.
func (a *Account) News() []store.Note {
	news := a.talk.news
	a.talk.news = nil
	return news
}
