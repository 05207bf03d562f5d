package routes

import (
	"strings"

	"github.com/abide-proxy/abide/limit/learn"
)

// update records a route's announcement of the limit of a group, and returns its group: a
// route whose reset differs twice from that of the others gets a group of its own.
func (m *Table) update(r *route, g *group, h *observation) *group {
	said := h.said
	k := g.record(h.budget)
	old := h.sent.Before(k.sent)
	if !old && k.running(h.now, 0) && !k.reset.IsZero() && said.Reset.After(h.now.Add(tolerance(said.Resolution, 0))) {
		in := r.in(g)
		switch agrees := k.sameReset(said.Reset, said.Resolution); {
		case agrees && k.route != r.number:
			in.clash = 0
		case agrees:
			if g.moving == 1 {
				g.moving = 0
			}
		case k.route == r.number, k.sameRefill(g, h):
			g.moving = min(g.moving+1, 2)
		case g.moving < 2 && g.bucket == "" && g.routes > 1:
			if in.clash++; in.clash >= 2 {
				return m.update(r, m.catalog.split(r, g, h), h)
			}
		}
	}
	g.seen = h.now
	if said.Reset.After(g.until) {
		g.until = said.Reset
	}
	m.complete(g, said)
	if same := k.sameReset(said.Reset, said.Resolution); same || !old {
		if !same {
			k.many, k.served = 0, 0
		}
		if !h.lesson.Throttled {
			k.served++
		}
		if said.Remaining.Known && said.Remaining.N >= 1 { // 0 is shown by many responses
			k.recent[k.many%len(k.recent)] = said.Remaining.N
			k.many++
		}
	}
	k.before, k.heard = k.heard, h.now
	switch {
	case !old:
		k.route, k.sent = r.number, h.sent
		k.left, k.reset, k.resolution = believed(said.Remaining), said.Reset, said.Resolution
	case said.Remaining.Known && k.left.Known && said.Remaining.N < k.left.N:
		k.left.N = said.Remaining.N
	}
	return m.spent(r, g, k, h)
}

// complete adds to a group what was not known of its limit.
func (m *Table) complete(g *group, said *learn.Limit) {
	if !g.fits(said) || (g.amount.Known || !said.Limit.Known) && (g.window > 0 || said.Window <= 0) {
		return
	}
	if !g.amount.Known {
		g.amount = believed(said.Limit)
	}
	g.window = max(g.window, said.Window)
	if title := g.entitle(); title != g.title {
		g.title = title
		clear(m.lists.known)
		m.rebuildOf(g)
	}
}

// AddHidden puts a class under a hidden limit, after a refusal that no announced limit
// explains; with wide, all classes of the site. It returns the limit's ID, the same for
// each call.
func (m *Table) AddHidden(c *Class, wide bool) (id string, changed bool) {
	m.dirty = false
	if wide {
		changed = m.AdoptHidden(hiddenIdentity)
		return m.siteWide.id, changed
	}
	r := m.routeOf(c)
	if r.hidden == nil {
		m.hide(r)
	}
	return r.hidden.id, m.dirty
}

// Unite makes a hidden limit one of all credentials together, if together is true. It reports
// whether the limit is one, and whether that is new.
func (m *Table) Unite(id string, together bool) (united, changed bool) {
	g := m.catalog.groups[id]
	if g == nil || g.kind != Hidden || g.site || !together {
		return g != nil && g.site, false
	}
	m.dirty = false
	g.site = true
	clear(m.lists.known)
	m.rebuildAll()
	return true, m.dirty
}

// hide puts a route under a hidden limit, and with it the routes that differ only in
// their entity: refusals are spread over many entities.
func (m *Table) hide(r *route) {
	what := r.template()
	g := m.catalog.newHidden(what)
	if r.place.entity.segment == 0 {
		r.hidden = g
		m.rebuild(r)
		return
	}
	if len(m.catalog.hiddenOf) < mostRoutes {
		m.catalog.hiddenOf[what] = g
	}
	for _, o := range m.tree.known {
		if o.hidden == nil && o.place.entity.segment > 0 && o.template() == what {
			o.hidden = g
			m.rebuild(o)
		}
	}
}

// AdoptHidden puts routes under a hidden limit that another process has found, by its
// identity: all routes of the site, or the known routes that it names.
func (m *Table) AdoptHidden(identity string) (changed bool) {
	m.dirty = false
	if identity == hiddenIdentity {
		if m.siteWide == nil {
			m.siteWide = m.catalog.newHidden("")
			m.rebuildAll()
		}
		return m.dirty
	}
	covers, hidden := strings.CutPrefix(identity, hiddenIdentity+"/")
	if !hidden {
		return false
	}
	for _, r := range m.tree.known {
		if r.hidden == nil && bound(r.template(), longestTitle) == covers {
			m.hide(r)
		}
	}
	return m.dirty
}

// hiddenIdentity begins the identities of hidden limits.
const hiddenIdentity = "hidden"
