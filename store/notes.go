package store

import (
	"cmp"
	"slices"
	"time"
)

// nearly is how much two who say the same may differ by in when it ends.
const nearly = time.Second

// farthest is the latest time that a Note stands until: later ones would not be exact
// in the floating point of a script.
var farthest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// whole is a Note as it is written down.
func (n Note) whole() Note {
	if n.Until.After(farthest) {
		n.Until = farthest
	}
	n.Until = time.UnixMicro(n.Until.UnixMicro())
	n.N = min(max(n.N, -brims), brims)
	return n
}

// newer says whether a Note takes the place of one that is known: the later Until
// does, and where both say the same time, or nearly, the larger N. It is news then.
func newer(n, known Note) bool {
	if d := n.Until.Sub(known.Until); d > nearly || d < -nearly {
		return d > 0
	}
	return n.N > known.N
}

// mergeNotes takes up what is said and drops what is over. It returns what was news.
func mergeNotes(known map[string]Note, said []Note, now time.Time) (news []Note) {
	for key, n := range known {
		if !n.Until.After(now) {
			delete(known, key)
		}
	}
	for _, n := range said {
		n = n.whole()
		if old, there := known[n.Key]; n.Until.After(now) && (!there || newer(n, old)) {
			known[n.Key] = n
			news = append(news, n)
		}
	}
	return news
}

func sortNotes(notes []Note) []Note {
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.Key, b.Key) })
	return notes
}
