package store

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

func (m *Member) lifetime() time.Duration { return cmp.Or(m.Lifetime, Lifetime(0)) }

// listed is members in the order of their IDs, at most MostMembers.
func listed(all iter.Seq[Member]) []Member {
	list := slices.SortedFunc(all, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list[:min(len(list), MostMembers)]
}
