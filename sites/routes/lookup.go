package routes

import (
	"slices"
	"strconv"
	"strings"
)

// Fresh reports whether the site has not responded yet, so that nothing is known.
func (m *Table) Fresh() bool { return m.answers == 0 }

// Limited reports whether the site is known to have a limit.
func (m *Table) Limited() bool { return len(m.groups) > 0 }

// IDs returns the IDs of all limits of the site, sorted.
func (m *Table) IDs() []string {
	ids := make([]string, 0, len(m.groups))
	for id := range m.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Title returns a limit's title: "75 per 15m"; "" if the limit does not exist.
func (m *Table) Title(id string) string {
	if g := m.groups[id]; g != nil {
		return g.title
	}
	return ""
}

// Describe returns the bucket of a limit, with its entity, or, if the server names none,
// the routes that are known to be under the limit, sorted.
func (m *Table) Describe(id string) (bucket string, routes []string) {
	g := m.groups[id]
	if g == nil {
		return "", nil
	}
	if g.bucket != "" {
		if g.entity != "" {
			return g.bucket + " " + g.entity, nil
		}
		return g.bucket, nil
	}
	for _, r := range m.known {
		if r.in(g) != nil || r.hidden == g {
			routes = append(routes, r.name)
		}
	}
	slices.Sort(routes)
	return "", routes
}

// Identity returns a name of a limit that is the same in all processes that see the same
// responses: the server's names and the amount. Limits that only their routes tell apart
// have the first route in it.
func (m *Table) Identity(id string) string {
	g := m.groups[id]
	switch {
	case g == nil:
		return ""
	case g.kind == Hidden && g == m.siteWide:
		return hiddenIdentity
	case g.kind == Hidden:
		return hiddenIdentity + "/" + g.covers
	}
	parts := []string{g.bucket, g.host, g.name, g.partition, g.entity, string(g.unit)}
	if g.amount.Known {
		parts = append(parts, strconv.FormatFloat(g.amount.N, 'g', -1, 64))
	}
	alone := !g.private
	for _, o := range m.groups {
		alone = alone && (o == g || o.kind != g.kind || o.bucket != g.bucket || o.nameKey != g.nameKey || !agree(o.amount, g.amount))
	}
	if _, routes := m.Describe(id); !alone && len(routes) > 0 {
		parts = append(parts, routes[0])
	}
	return strings.Join(parts, "/")
}

// Announces reports whether the site has announced a limit.
func (m *Table) Announces() bool { return m.announced }
