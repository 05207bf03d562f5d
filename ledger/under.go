package ledger

import "slices"

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
