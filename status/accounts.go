package status

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// suspiciousShare is the part of a limit that others seem to use of two tokens before
	// these are shown as perhaps one account.
	suspiciousShare = 0.2
	// sameEnd is by how much the ends of one window may differ between two tokens.
	sameEnd = 2 * time.Second
)

// Suspects are lists of labels of tokens that may be of one account though the pool does
// not say so: others seem to use a limit of each, and the windows end together.
func (p Pool) Suspects() [][]string {
	type use struct {
		limit, label string
		reset        time.Time
	}
	var all []use
	for _, t := range p.Tokens {
		for _, l := range t.Limits {
			if l.Foreign >= suspiciousShare && !l.Reset.IsZero() && len(t.Twins) == 0 {
				all = append(all, use{l.Site + " " + l.Name(), t.Label, l.Reset})
			}
		}
	}
	slices.SortFunc(all, func(a, b use) int {
		return cmp.Or(strings.Compare(a.limit, b.limit), a.reset.Compare(b.reset), strings.Compare(a.label, b.label))
	})
	var found [][]string
	for n := 0; n < len(all); {
		first, labels := all[n], []string{}
		for ; n < len(all) && all[n].limit == first.limit && all[n].reset.Sub(first.reset) <= sameEnd; n++ {
			labels = append(labels, all[n].label)
		}
		if len(labels) > 1 {
			slices.Sort(labels)
			found = append(found, labels)
		}
	}
	slices.SortFunc(found, slices.Compare)
	return slices.CompactFunc(found, slices.Equal)
}
