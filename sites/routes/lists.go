package routes

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// lists caches lists of limits. Routes with the same limits share one list.
type lists struct {
	known  map[string][]Limit // :: the numbers of groups → their limits
	picked []*group           // scratch
	key    []byte             // scratch
}

// of is the list of the limits of groups, which it sorts.
func (l *lists) of(all []*group) []Limit {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Compare(a.number, b.number) })
	l.key = l.key[:0]
	for _, g := range all {
		l.key = binary.AppendUvarint(l.key, g.number)
	}
	if known := l.known[string(l.key)]; known != nil {
		return known
	}
	limits := make([]Limit, len(all))
	for n, g := range all {
		limits[n] = Limit{ID: g.id, Title: g.title, Entity: g.entity, Kind: g.kind, Unit: g.unit, Site: g.site}
	}
	if len(l.known) >= 2*mostRoutes {
		clear(l.known)
	}
	l.known[string(l.key)] = limits
	return limits
}
