package routes

import (
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/sites/ledger"
)

// Explain looks for the reason of a surprise: a response to a request of a class that
// differed from what the ledger of a limit expected. It reports whether the limits of
// some routes have changed.
func (m *Table) Explain(now time.Time, c *Class, budget, id string, sent time.Time, n ledger.Surprise) (changed bool) {
	g := m.catalog.groups[id]
	if g == nil || g.kind == Hidden || n.Foreign <= 0 && !n.Higher {
		return false
	}
	m.dirty = false
	if n.Higher {
		m.higher(now, m.routeOf(c), g, budget, sent)
	}
	if k := g.budgets[budget]; k != nil && n.Foreign > 0 {
		m.explain(g, k, float64(n.Foreign))
	}
	return m.dirty
}

// higher splits a route off its group when, for the second time, the route showed more
// than can be left of one counter.
func (m *Table) higher(now time.Time, r *route, g *group, budget string, sent time.Time) {
	in := r.in(g)
	if in == nil || g.bucket != "" || g.routes < 2 || !in.rose(sent) {
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
	on := m.catalog.plain[g.key]
	if g.bucket != "" || on == nil || len(on.groups) < 2 {
		return
	}
	var other *group
	for _, o := range on.groups {
		if o != g && o.moves(g, k, foreign) && (other == nil || o == g.double.group) {
			other = o
		}
	}
	switch {
	case other == nil:
		g.double = double{}
	case other != g.double.group:
		g.double = double{other, 1}
	default:
		g.double.times++
	}
	// Groups that have been split before need more evidence.
	if other != nil && g.double.times >= 3<<min(on.splits, 6) {
		m.merge(g, other)
	}
}

// spent looks, when nothing is left of a limit though its own routes have used less, for
// the groups that have used the rest, and merges them. In a burst nothing else shows
// that they are one limit. It returns the group that remains.
func (m *Table) spent(r *route, g *group, k *record, h *observation) *group {
	on := m.catalog.plain[g.key]
	left := h.said.Remaining
	if g.bucket != "" || on == nil || len(on.groups) < 2 || !left.Known || left.N >= 1 || !g.amount.Known {
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
	a.double = double{}
	if b.until.After(a.until) {
		a.until = b.until
	}
	m.catalog.remove(b)
	m.changed()
	m.rebuildOf(a)
	return a
}

const leastServed = 8 // answers of a window before two groups may be merged by their sum
