package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// A shelf has the groups that are alike.
type shelf struct {
	groups         []*group
	pairs          []*pair // of what two groups remember of one budget
	splits, merges int
}

// choose is the group that a route which shows a limit for the first time is taken
// into, or nil.
func (s *shelf) choose(r *route, h *hearing) *group {
	var best *group
	sure := no
	for _, g := range s.groups {
		if r.in(g) != nil {
			continue
		}
		v := g.takes(h)
		if v == no {
			continue
		}
		guessed := slices.Contains(r.guessed, g)
		if v > sure || v == sure && (guessed || g.routes > best.routes && !slices.Contains(r.guessed, best)) {
			best, sure = g, v
		}
	}
	return best
}

// Heard is told what the ledger of a limit made of an answer to a request of a
// class. Changed is true when the limits of some routes are others now. Twins are
// the budgets that turn out to be one.
func (m *Routes) Heard(now time.Time, c *Class, budget, id string, sent time.Time, n News) (changed bool, twins [2]string) {
	g := m.groups[id]
	if g == nil || g.kind == Hidden || n.Foreign <= 0 && !n.Higher {
		return false, twins
	}
	m.dirty = false
	if n.Higher {
		m.higher(now, m.of(c), g, budget, sent)
	}
	if k := g.budgets[budget]; k != nil && n.Foreign > 0 {
		k.foreign += float64(n.Foreign)
		k.hits++
		twins = m.suspect(g, k)
		m.explain(g, k, float64(n.Foreign))
	}
	return m.dirty, twins
}

// higher hears that more was left than can be: twice, and the route is taken for
// one with a counter of its own.
func (m *Routes) higher(now time.Time, r *route, g *group, budget string, sent time.Time) {
	in := r.in(g)
	if in == nil || g.bucket != "" || g.routes < 2 || !in.more(sent) {
		return
	}
	m.split(r, g, &hearing{now: now, said: &learn.Limit{Limit: g.amount, Window: g.window}})
	if k := g.budgets[budget]; k != nil {
		// What it showed last was the other counter's.
		k.heard, k.sent, k.reset, k.left = time.Time{}, time.Time{}, time.Time{}, learn.Amount{}
	}
	m.rebuild(r)
}

// split takes a route out of a group, into one of its own: that another looks like
// it has misled before.
func (m *Routes) split(r *route, g *group, h *hearing) *group {
	if on := m.plain[g.alike]; on != nil {
		on.splits++
		on.pairs = nil
	}
	to := m.newPlain(g.alike, h.now, h.said)
	to.apart = to.apart || to.routes == 0 && g.apart
	m.leave(r, slices.IndexFunc(r.members, func(in member) bool { return in.group == g }))
	return m.join(r, to)
}

// explain looks for another group whose use is what seemed to be somebody else's.
// Three times, and the two are one.
func (m *Routes) explain(g *group, k *memory, foreign float64) {
	on := m.plain[g.alike]
	if g.bucket != "" || on == nil || len(on.groups) < 2 {
		return
	}
	var other *group
	for _, o := range on.groups {
		if o != g && o.moves(g, k, foreign) && (other == nil || o == g.other) {
			other = o
		}
	}
	switch {
	case other == nil:
		g.other, g.agreeing = nil, 0
	case other != g.other:
		g.other, g.agreeing = other, 1
	default:
		g.agreeing++
	}
	// What has been split before needs more to be one again.
	if other == nil || g.agreeing < 3<<min(on.splits, 6) {
		if other = on.weigh(g, k); other == nil {
			return
		}
	}
	m.merge(g, other)
}

// weigh is the group whose use a group has seen for long enough to be one with
// it, or nil: the same as for twins, which holds while many are under way.
func (s *shelf) weigh(g *group, k *memory) *group {
	for _, o := range s.groups {
		own := o.budgets[k.budget]
		if o == g || own == nil || !g.mayBe(o) || !own.ends(k) {
			continue
		}
		at := slices.IndexFunc(s.pairs, func(p *pair) bool {
			return p.of == [2]*memory{k, own} || p.of == [2]*memory{own, k}
		})
		if at < 0 {
			if len(s.pairs) < mostPairs {
				s.pairs = append(s.pairs, newPair(k, own))
			}
			continue
		}
		p := s.pairs[at]
		side := 0
		if p.of[1] == k {
			side = 1
		}
		switch p.weigh(side) {
		case yes:
			return o
		case no:
			s.pairs = slices.Delete(s.pairs, at, at+1)
		}
	}
	return nil
}

// spent looks, when nothing is left of a limit though its own routes have used
// less, for the groups which have used the rest, and makes one of them. In a burst
// nothing else shows that they are one.
func (m *Routes) spent(r *route, g *group, k *memory, h *hearing) *group {
	on := m.plain[g.alike]
	left := h.said.Remaining
	if g.bucket != "" || on == nil || len(on.groups) < 2 || !left.Known || left.N >= 1 || !g.amount.Known {
		return g
	}
	most := g.amount.N
	used := float64(k.served)
	if k.many < leastTwin || used > most*9/10 {
		return g
	}
	var all []*group
	for _, o := range on.groups {
		own := o.budgets[h.budget]
		if o == g || own == nil || r.in(o) != nil || !g.mayBe(o) || !own.ends(k) || own.many < leastTwin || k.meets(own) {
			continue
		}
		all = append(all, o)
		used += float64(own.served)
	}
	if len(all) == 0 || math.Abs(used-most) > most/10 {
		return g
	}
	for _, o := range all {
		g = m.merge(g, o)
	}
	return g
}

// meets says whether two have shown the same amount, which one counter does not.
func (k *memory) meets(o *memory) bool {
	return slices.ContainsFunc(k.recent[:min(k.many, len(k.recent))], o.shown)
}

// mayBe says whether two groups may turn out to be one.
func (g *group) mayBe(o *group) bool {
	return !g.private && !o.private && g.amount.Known && g.amount == o.amount && agreeWindow(g.window, o.window)
}

// ends says whether two windows surely end together.
func (k *memory) ends(o *memory) bool {
	return !k.reset.IsZero() && !o.reset.IsZero() && k.resets(o.reset, o.resolution)
}

// moves says whether a group shows for a budget what another shows, and has been
// used since that was heard of before.
func (g *group) moves(o *group, k *memory, foreign float64) bool {
	own := g.budgets[k.budget]
	if own == nil || !g.mayBe(o) || !own.ends(k) || !own.left.Known || !k.left.Known {
		return false
	}
	if own.shown(k.left.N) || k.shown(own.left.N) || k.sent.After(own.heard) && k.left.N >= max(own.left.N, 1) {
		return false // no counter shows that
	}
	return own.heard.After(k.before) && math.Abs(own.left.N-k.left.N) <= 2+foreign/8
}

// merge makes one of two groups, which it returns.
func (m *Routes) merge(a, b *group) *group {
	if b.number < a.number {
		a, b = b, a
	}
	on := m.plain[a.alike]
	on.merges++
	on.pairs = nil
	for _, r := range m.known {
		if n := slices.IndexFunc(r.members, func(in member) bool { return in.group == b }); n >= 0 {
			m.leave(r, n)
			m.join(r, a)
		}
	}
	for budget, k := range b.budgets {
		if own := a.budgets[budget]; own == nil || k.sent.After(own.sent) {
			a.absolve(own)
			a.budgets[budget] = k
		}
	}
	a.other, a.agreeing = nil, 0
	if b.until.After(a.until) {
		a.until = b.until
	}
	m.remove(b)
	m.bump()
	m.rebuildOf(a)
	return a
}
