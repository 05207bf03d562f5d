package ledger

import (
	"slices"
	"strconv"
	"strings"
)

// Fresh says whether the site has not answered yet, so that nothing at all is known.
func (m *Routes) Fresh() bool { return m.answers == 0 }

// Limited says whether the site is known to have a limit.
func (m *Routes) Limited() bool { return len(m.groups) > 0 }

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

// hiddenIdentity begins the identities of limits that are not announced.
const hiddenIdentity = "hidden"

// Found puts what another instance has found under a limit that is not announced, by its
// identity: every class of the site, or the routes that it names as far as they are known.
func (m *Routes) Found(identity string) (changed bool) {
	m.dirty = false
	if identity == hiddenIdentity {
		if m.wide == nil {
			m.wide = m.newHidden("every route")
			m.rebuildAll()
		}
		return m.dirty
	}
	title, hidden := strings.CutPrefix(identity, hiddenIdentity+"/")
	if !hidden {
		return false
	}
	for _, r := range m.known {
		if r.hidden == nil && bound(r.template(), longestTitle) == title {
			m.veil(r)
		}
	}
	return m.dirty
}

// Identity names a limit as all who see the same answers do, whatever else each of them
// knows of the site's routes: by what answers call it and how much it is. Limits that
// only their routes tell apart bear those.
func (m *Routes) Identity(id string) string {
	g := m.groups[id]
	switch {
	case g == nil:
		return ""
	case g.kind == Hidden && g == m.wide:
		return hiddenIdentity
	case g.kind == Hidden:
		return hiddenIdentity + "/" + g.title
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
