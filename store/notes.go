package store

import (
	"cmp"
	"slices"
	"time"
)

// untilTolerance is how much the Until of two notes with the same content may differ.
const untilTolerance = time.Second

// maxUntil is the latest Until of a Note: later times would not be exact in the floating
// point of a script.
var maxUntil = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// normalized is a Note as it is saved.
func (n Note) normalized() Note {
	if n.Until.After(maxUntil) {
		n.Until = maxUntil
	}
	n.Until = time.UnixMicro(n.Until.UnixMicro())
	n.N = min(max(n.N, -maxSum), maxSum)
	return n
}

// newer tells whether a Note replaces a known one: a later Until does, or if both are
// nearly equal, a larger N. The same rule is in redis.lua and package lease.
func newer(n, known Note) bool {
	if d := n.Until.Sub(known.Until); d > untilTolerance || d < -untilTolerance {
		return d > 0
	}
	return n.N > known.N
}

// MergeNotes adds received notes to the known ones, and drops expired ones. It returns the
// notes that were new.
func MergeNotes(known map[string]Note, said []Note, now time.Time) (news []Note) {
	for key, n := range known {
		if !n.Until.After(now) {
			delete(known, key)
		}
	}
	for _, n := range said {
		n = n.normalized()
		if old, there := known[n.Key]; n.Until.After(now) && (!there || newer(n, old)) {
			known[n.Key] = n
			news = append(news, n)
		}
	}
	return news
}

// SortNotes sorts notes by key.
func SortNotes(notes []Note) []Note {
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.Key, b.Key) })
	return notes
}
