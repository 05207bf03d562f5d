package ledger

import (
	"slices"
	"strconv"
	"strings"
)

// Fresh says whether the site has not answered yet, so that nothing at all is known.
func (m *Routes) Fresh() bool { return m.answers == 0 }

// IDs are those of all limits of the site.
func (m *Routes) IDs() []string {
	ids := make([]string, 0, len(m.groups))
	for id := range m.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Title is what a limit is, for people: "75 per 15m"; "" for one that is not there.
func (m *Routes) Title(id string) string {
	if g := m.groups[id]; g != nil {
		return g.title
	}
	return ""
}

// Under is what the server calls a limit, with the part whose it is, or, where it does
// not, the routes that are known to be under it, in order.
func (m *Routes) Under(id string) (bucket string, routes []string) {
	g := m.groups[id]
	if g == nil {
		return "", nil
	}
	if g.bucket != "" {
		if g.part != "" {
			return g.bucket + " " + g.part, nil
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

// Identity names a limit as all who see the same answers do, whatever else each of them
// knows of the site's routes: by what answers call it and how much it is. Limits that
// only their routes tell apart bear those.
func (m *Routes) Identity(id string) string {
	g := m.groups[id]
	if g == nil {
		return ""
	}
	parts := []string{g.bucket, g.host, g.name, g.partition, g.part, string(g.unit)}
	if g.amount.Known {
		parts = append(parts, strconv.FormatFloat(g.amount.N, 'g', -1, 64))
	}
	alone := !g.private
	for _, o := range m.groups {
		alone = alone && (o == g || o.kind != g.kind || o.bucket != g.bucket || o.alike != g.alike || !agree(o.amount, g.amount))
	}
	if _, routes := m.Under(id); !alone && len(routes) > 0 {
		parts = append(parts, routes[0])
	}
	return strings.Join(parts, "/")
}
