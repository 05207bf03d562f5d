package routes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Bounds of the routes of a site, and of the limits of its entities: there are as many entities
// as clients ask for.
const (
	mostRoutes        = 2000
	spareRoute        = 200  // removed at once when there are more
	mostEntityLimits  = 2000 // in a table
	spareEntityLimits = 200  // removed at once when there are more, and the most that one response may add
)

// ensure returns the node of a path. It makes the nodes that are missing.
func (m *Table) ensure(h *host, path string, of entity) *node {
	p, whole := h.root, path
	for more := true; more; {
		var segment string
		if p.depth+1 == of.segment {
			if value, rest, further := strings.Cut(path, "/"); identifies(value) {
				if m.forgetBelow(p.children[keyOf(value)]) {
					return m.ensure(h, whole, of)
				}
				p, path, more = p.ensureValue(value, of), rest, further
				continue
			}
		}
		segment, path, more = p.segment(path)
		if segment != "" && segment[0] != '*' && p.children[segment] == nil && p.names() >= mostKids {
			m.generalise(p)
			segment = "*"
		}
		if m.forgetBelow(p.values[segment]) {
			return m.ensure(h, whole, of)
		}
		p = p.child(segment)
	}
	return p
}

// generalise makes one wildcard of all names below a node, and unites the routes below
// them. A name that has a hidden limit for itself stays: the wildcard would hold all others by that limit.
func (m *Table) generalise(p *node) {
	p.generalised = true
	var taken []*route
	for name, kid := range p.children {
		all := kid.below()
		if name != "" && !slices.ContainsFunc(all, func(r *route) bool { return m.hiddenOf(r) != nil }) {
			delete(p.children, name)
			taken = append(taken, all...)
		}
	}
	slices.SortFunc(taken, func(a, b *route) int { return cmp.Compare(b.used, a.used) })
	for _, r := range taken {
		delete(m.tree.known, r.name)
		segments := strings.Split(r.place.text, "/") // the first is empty
		segments[p.depth+1] = "*"
		to := m.ensure(p.host, strings.Join(segments[1:], "/"), r.place.entity)
		if same := to.at(r.method); same != nil {
			m.unite(same, r)
			r = same
		} else {
			m.tree.put(r, to)
		}
		m.rebuild(r)
	}
}

// unite adds to a route what another one knew, which is no more. Of two groups that are
// alike the route keeps its own.
func (m *Table) unite(r, o *route) {
	o.class = nil
	for len(o.members) > 0 {
		last := len(o.members) - 1
		g := o.members[last].group
		o.leave(last)
		if !slices.ContainsFunc(r.members, func(ours membership) bool { return ours.group.like(g) }) {
			r.join(g)
		}
	}
	r.answered = r.answered || o.answered
	r.used = max(r.used, o.used)
	if len(r.members) > 0 {
		r.guessing, r.guessed = false, nil
	}
}

// forgetBelow removes a node and the routes below, and reports whether there was a node.
// It is for a segment that has become, or ceased to be, an entity.
func (m *Table) forgetBelow(p *node) bool {
	if p == nil {
		return false
	}
	m.version++
	for _, r := range p.below() {
		m.tree.drop(r)
	}
	gone := func(_ string, o *node) bool { return o == p }
	maps.DeleteFunc(p.up.children, gone)
	maps.DeleteFunc(p.up.values, gone)
	m.tree.hosts[p.host.name] = p.host
	return true
}

// evictEntities removes the limits of entities that were seen longest ago, and the
// routes under them. The limits of route r stay.
func (m *Table) evictEntities(r *route) {
	all := make([]*group, 0, len(m.catalog.groups))
	for _, g := range m.catalog.groups {
		if g.key.entity != "" && r.in(g) == nil {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *group) int {
		if (a.routes == 0) != (b.routes == 0) {
			return cmp.Compare(a.routes, b.routes)
		}
		return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.number, b.number))
	})
	all = all[:min(spareEntityLimits, len(all))]
	leaving := map[*group]bool{}
	for _, g := range all {
		leaving[g] = true
	}
	m.version++
	for _, o := range m.tree.known {
		if slices.ContainsFunc(o.members, func(in membership) bool { return leaving[in.group] }) {
			m.tree.drop(o)
		}
	}
	for _, g := range all {
		m.catalog.remove(g)
	}
}
