package store

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

func (m *Member) lifetime() time.Duration { return cmp.Or(m.Lifetime, Lifetime(0)) }

// sortedMembers sorts members by ID, and returns at most MostMembers.
func sortedMembers(all iter.Seq[Member]) []Member {
	list := slices.SortedFunc(all, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list[:min(len(list), mostMembers)]
}
