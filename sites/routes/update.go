package routes

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/status"
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
	g.until = status.Later(g.until, said.Reset)
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
	before, covers := m.version, ""
	if !wide {
		covers = m.routeOf(c).template()
	}
	id = m.hide(covers).id
	return id, m.version != before
}

// HiddenLimits says which hidden limits there are beside a class.
type HiddenLimits struct {
	Own    bool // it has one that is not the site's
	Proved bool // see Prove
	Others bool // others have one that may be the site's, or the site has one
}

// HiddenOf returns which hidden limits a class has, and others.
func (m *Table) HiddenOf(c *Class) (h HiddenLimits) {
	g := m.hiddenOf(m.routeOf(c))
	h.Own, h.Proved = g != nil, g != nil && g.private
	h.Others = slices.ContainsFunc(m.catalog.hidden, func(o *group) bool { return o != g && !o.private })
	return h
}

// Prove notes that the hidden limit of the routes of a template is not the site's.
func (m *Table) Prove(template string) {
	if g := m.catalog.hiddenOf[template]; g != nil && template != "" {
		g.private = true
	}
}

// hiddenOf returns the hidden limit of a route, and of those that differ only in their entity: refusals are
// spread over many entities. nil: there is none but that of the site.
func (m *Table) hiddenOf(r *route) *group {
	if len(m.catalog.hiddenOf) == 0 {
		return nil
	}
	return m.catalog.hiddenOf[r.template()]
}

// Widen removes the hidden limits of routes that may be the site's, unless the site has one beside them. That of one template is the
// site's from then on.
func (m *Table) Widen(template string) (changed bool) {
	if m.catalog.hiddenOf[""] != nil {
		return false
	}
	before, kept := m.version, m.catalog.hiddenOf[template]
	m.withdraw()
	if kept != nil && !kept.private {
		kept.covers = ""
		m.catalog.groups[kept.id], m.catalog.hidden, m.catalog.hiddenOf[""] = kept, append(m.catalog.hidden, kept), kept
		m.rebuildAll()
	}
	return m.version != before
}

func (m *Table) withdraw() {
	if m.Silent() && m.catalog.hiddenOf[""] == nil {
		unproved := func(g *group) bool { return g.kind == Hidden && !g.private }
		maps.DeleteFunc(m.catalog.groups, func(_ string, g *group) bool { return unproved(g) })
		maps.DeleteFunc(m.catalog.hiddenOf, func(_ string, g *group) bool { return unproved(g) })
		m.catalog.hidden = slices.DeleteFunc(m.catalog.hidden, unproved)
	}
	m.rebuildAll()
}

// Unite makes a hidden limit one of all credentials together, if together is true. It reports
// whether the limit is one, and whether that is new.
func (m *Table) Unite(id string, together bool) (united, changed bool) {
	g := m.catalog.groups[id]
	if g == nil || g.kind != Hidden || g.site || !together {
		return g != nil && g.site, false
	}
	before := m.version
	g.site = true
	clear(m.lists.known)
	m.rebuildAll()
	return true, m.version != before
}

// hide puts the routes of a template under a hidden limit, unless they are: a new one, or the last one when there are
// too many. It returns their limit.
func (m *Table) hide(template string) *group {
	c, all := &m.catalog, m.catalog.hiddenOf
	if known := all[template]; known != nil {
		return known
	}
	if len(c.hidden) < mostHidden {
		c.made++
		g := &group{number: c.made, kind: Hidden, title: status.HiddenTitle, covers: bound(template, longestTitle)}
		g.id = c.unique("hidden", true, g.number)
		c.groups[g.id] = g
		c.hidden = append(c.hidden, g)
	}
	g := c.hidden[len(c.hidden)-1]
	if len(all) >= mostRoutes {
		maps.DeleteFunc(all, func(template string, _ *group) bool { return template != "" })
	}
	all[template] = g
	m.rebuildAll()
	return g
}

// AdoptHidden puts routes under a hidden limit that another process has found, by its
// identity: all routes of the site, or the known routes that it names.
func (m *Table) AdoptHidden(identity string) (changed bool) {
	before := m.version
	if identity == hiddenIdentity {
		m.hide("")
	}
	if covers, of := strings.CutPrefix(identity, hiddenIdentity+"/"); of {
		for _, r := range m.tree.known {
			if bound(r.template(), longestTitle) == covers {
				m.hide(r.template())
			}
		}
	}
	return m.version != before
}

// hiddenIdentity begins the identities of hidden limits.
const hiddenIdentity = "hidden"

// Explain looks for the reason of a surprise: a response to a request of a class that
// differed from what the ledger of a limit expected. It reports whether the limits of
// some routes have changed.
func (m *Table) Explain(now time.Time, c *Class, budget, id string, sent time.Time, n ledger.Surprise) (changed bool) {
	g := m.catalog.groups[id]
	if g == nil || g.kind == Hidden || n.Foreign <= 0 && !n.Higher {
		return false
	}
	before := m.version
	if n.Higher {
		m.higher(now, m.routeOf(c), g, budget, sent)
	}
	if k := g.budgets[budget]; k != nil && n.Foreign > 0 {
		m.explain(g, k, float64(n.Foreign))
	}
	return m.version != before
}

// higher splits a route off its group when, for the second time, the route showed more
// than can be left of one counter.
func (m *Table) higher(now time.Time, r *route, g *group, budget string, sent time.Time) {
	in := r.in(g)
	if in == nil || g.bucket != "" || g.routes < 2 || in.higher > 0 && in.last.Equal(sent) {
		return
	}
	in.last = sent
	if in.higher++; in.higher < 2 {
		return
	}
	m.catalog.split(r, g, &observation{now: now, said: &learn.Limit{Limit: g.amount, Window: g.window}})
	if k := g.budgets[budget]; k != nil {
		// The record is of the other counter.
		k.heard, k.sent, k.reset, k.left = time.Time{}, time.Time{}, time.Time{}, learn.Amount{}
	}
	m.rebuild(r)
}

// explain looks for another group whose use accounts for the foreign use of a group, and
// merges both when that happens three times in a row.
func (m *Table) explain(g *group, k *record, foreign float64) {
	on := m.catalog.announced[bucketKey{g.bucket, g.key}]
	if on == nil || len(on.groups) < 2 {
		return
	}
	var other *group
	for _, o := range on.groups {
		if o != g && o.moves(g, k, foreign) && (other == nil || o == g.double) {
			other = o
		}
	}
	if other != g.double {
		g.double, g.doubled = other, 0
	}
	g.doubled++
	// Groups that have been split before need more evidence.
	if other != nil && g.doubled >= 3<<min(on.splits, 6) {
		m.merge(g, other)
	}
}

// spent looks, when nothing is left of a limit though its own routes have used less, for
// the groups that have used the rest, and merges them. In a burst nothing else shows
// that they are one limit. It returns the group that remains.
func (m *Table) spent(r *route, g *group, k *record, h *observation) *group {
	on := m.catalog.announced[bucketKey{g.bucket, g.key}]
	left := h.said.Remaining
	if on == nil || len(on.groups) < 2 || !left.Known || left.N >= 1 || !g.amount.Known {
		return g
	}
	most := g.amount.N
	used := float64(k.served)
	if k.many < leastServed || used > most*9/10 {
		return g
	}
	var all []*group
	for _, o := range on.groups {
		ours := o.budgets[h.budget]
		if o == g || ours == nil || r.in(o) != nil || !g.mayBe(o) || !ours.sameEnd(k) || ours.many < leastServed || k.sameAmount(ours) {
			continue
		}
		all = append(all, o)
		used += float64(ours.served)
	}
	if len(all) == 0 || math.Abs(used-most) > most/10 {
		return g
	}
	for _, o := range all {
		g = m.merge(g, o)
	}
	return g
}

// merge makes one group of two, and returns it.
func (m *Table) merge(a, b *group) *group {
	if b.number < a.number {
		a, b = b, a
	}
	for _, r := range m.tree.known {
		if n := slices.IndexFunc(r.members, func(in membership) bool { return in.group == b }); n >= 0 {
			r.leave(n)
			r.join(a)
		}
	}
	for budget, k := range b.budgets {
		if record := a.budgets[budget]; record == nil || k.sent.After(record.sent) {
			a.budgets[budget] = k
		}
	}
	a.double = nil
	a.until = status.Later(a.until, b.until)
	m.catalog.remove(b)
	m.version++
	m.rebuildOf(a)
	return a
}

const leastServed = 8 // answers of a window before two groups may be merged by their sum
