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
		m.higher(now, m.of(c), g, budget)
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
func (m *Routes) higher(now time.Time, r *route, g *group, budget string) {
	in := r.in(g)
	if in == nil || g.bucket != "" || g.routes < 2 {
		return
	}
	in.higher++
	if on := m.plain[g.alike]; on == nil || in.higher < 2<<min(on.merges, 6) {
		return
	}
	h := hearing{
		now: now, budget: budget, lesson: &learn.Lesson{}, mark: math.MaxUint64,
		said: &learn.Limit{Limit: g.amount, Window: g.window},
	}
	k := g.budgets[budget]
	if k != nil {
		h.sent, h.said.Remaining, h.said.Reset, h.said.Resolution = k.sent, k.left, k.reset, k.resolution
	}
	m.split(r, g, &h)
	if k != nil {
		// What it showed last was the other counter's.
		k.heard, k.sent, k.reset, k.left = time.Time{}, time.Time{}, time.Time{}, learn.Amount{}
	}
	m.rebuild(r)
}

// split takes a route out of a group, into another that it surely belongs to or
// one of its own.
func (m *Routes) split(r *route, g *group, h *hearing) *group {
	var to *group
	if on := m.plain[g.alike]; on != nil {
		on.splits++
		if o := on.choose(r, h); o != nil && o.takes(h) == yes {
			to = o
		}
	}
	if to == nil {
		to = m.newPlain(g.alike, h.now, h.said)
		to.apart = to.apart || to.routes == 0 && g.apart
	}
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
	if other != nil && g.agreeing >= 3<<min(on.splits, 6) {
		m.merge(g, other)
	}
}

// moves says whether a group shows for a budget what another shows, and has been
// used since that was heard of before.
func (g *group) moves(o *group, k *memory, foreign float64) bool {
	own := g.budgets[k.budget]
	if own == nil || g.private || o.private || !g.amount.Known || g.amount != o.amount || !agreeWindow(g.window, o.window) {
		return false
	}
	if own.reset.IsZero() || k.reset.IsZero() || !own.resets(k.reset, k.resolution) || !own.left.Known || !k.left.Known {
		return false
	}
	return own.heard.After(k.before) && math.Abs(own.left.N-k.left.N) <= 2+foreign/8
}

// merge makes one of two groups.
func (m *Routes) merge(a, b *group) {
	if b.number < a.number {
		a, b = b, a
	}
	m.plain[a.alike].merges++
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
}
