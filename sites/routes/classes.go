package routes

import "slices"

// guess sets the limits that a route without a response is probably under: those that
// all routes of its path share, else those of the sibling paths, else those of all
// routes of the host.
func (m *Table) guess(r *route) {
	r.at = m.version
	r.guessed = r.guessed[:0]
	host := r.place.host
	if host.limited == 0 {
		return
	}
	var common siblings
	for _, o := range r.place.routes {
		common.add(o)
	}
	if len(common.groups) == 0 && r.place.up != nil {
		common = siblings{}
		for _, o := range r.place.up.children {
			common.addAll(o)
		}
		if r.place.up.star != nil {
			common.addAll(r.place.up.star)
		}
	}
	for _, g := range common.groups {
		if !g.unshared && (g.routes > 1 || host.limited == 1) {
			r.guessed = append(r.guessed, g)
		}
	}
	if len(r.guessed) > 0 {
		return
	}
	for _, g := range m.common {
		if g.host == host.name && g.routes >= host.limited && !g.unshared {
			r.guessed = append(r.guessed, g)
		}
	}
}

// changed makes the version larger, once for each call of an exported method.
func (m *Table) changed() {
	if !m.dirty {
		m.version++
		m.dirty = true
	}
}

// rebuild gives a route a new class if its limits have changed.
func (m *Table) rebuild(r *route) {
	if r.guessing && r.at != m.version {
		m.guess(r)
	}
	limits, unknown := m.limits(r), !r.answered && !m.Silent()
	if c := r.class; c != nil && c.Route == r.name && c.Unknown == unknown && slices.Equal(c.Limits, limits) {
		return
	}
	m.changed()
	r.at = m.version
	r.class = r.classOf(limits, unknown, m.version)
}

func (m *Table) rebuildAll() {
	for _, r := range m.known {
		m.rebuild(r)
	}
}

// rebuildOf rebuilds the routes of a group, and those whose limits are guessed.
func (m *Table) rebuildOf(g *group) {
	for _, r := range m.known {
		if r.in(g) != nil || r.guessing {
			m.rebuild(r)
		}
	}
}

// limits returns the limits that a route is under, in the order in which they were
// found.
func (m *Table) limits(r *route) []Limit {
	l := &m.lists
	l.picked = l.picked[:0]
	for n := range r.members {
		l.picked = append(l.picked, r.members[n].group)
	}
	if r.guessing {
		for _, g := range r.guessed {
			if r.in(g) == nil {
				l.picked = append(l.picked, g)
			}
		}
	}
	if r.hidden != nil {
		l.picked = append(l.picked, r.hidden)
	}
	if m.siteWide != nil {
		l.picked = append(l.picked, m.siteWide)
	}
	return l.of(l.picked)
}
