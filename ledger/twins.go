package ledger

import (
	"math"
	"slices"
	"time"
)

// Two tokens of one account have one budget: what one uses, the other sees gone.
// That their windows end together proves nothing, and neither does use by others
// of both. So the use that each sees has to be the other's own, for long enough,
// and what is left has to fall from the answers of one to those of the other.

const (
	mostSuspects = 32  // budgets of a group that others seem to use
	mostPairs    = 128 // of those
	mostTwins    = 1024
	leastTwin    = 8 // units that each has seen of the other
	leastHits    = 3 // answers that showed it
	mostFlight   = 64
)

// A pair is two budgets that may be one, by what each has seen since they were
// first taken for that.
type pair struct {
	of      [2]*memory
	own     [2]float64 // when it began
	foreign [2]float64
	hits    [2]int
	fine    [2]bool // the use by others that it saw last was the other's
	trails  [2]trace
}

func newPair(a, b *memory) *pair {
	return &pair{of: [2]*memory{a, b}, own: [2]float64{a.own, b.own}, foreign: [2]float64{a.foreign, b.foreign}}
}

// A trace is what some of the answers to one budget showed, the oldest first.
// They are far enough apart for the first to be older than what is under way.
type trace struct {
	reset time.Time
	many  int
	steps [8]step
}

type step struct {
	heard time.Time
	left  float64
	route *route
}

// add keeps an answer.
func (t *trace) add(r *route, k *memory, h *hearing) {
	if t.many > 0 && (t.reset.Sub(h.said.Reset).Abs() > unsure(k.resolution, h.said.Resolution)) {
		t.many = 0
	}
	if t.many == 0 {
		t.reset = h.said.Reset
	}
	if t.many > 0 && h.now.Sub(t.steps[t.many-1].heard).Seconds() < k.lag/4 {
		return
	}
	if t.many == len(t.steps) {
		copy(t.steps[:], t.steps[1:])
		t.many--
	}
	t.steps[t.many] = step{h.now, h.said.Remaining.N, r}
	t.many++
}

// before is the last answer of the window that had been heard when a request was
// sent, if there is one.
func (t *trace) before(h *hearing) (s step, ok bool) {
	if t.reset.Sub(h.said.Reset).Abs() > unsure(h.said.Resolution, 0) {
		return s, false
	}
	for n := t.many - 1; n >= 0; n-- {
		if t.steps[n].heard.Before(h.sent) {
			return t.steps[n], true
		}
	}
	return s, false
}

// suspect looks for a budget whose own use is what another saw of others.
func (m *Routes) suspect(g *group, k *memory) (twins [2]string) {
	if k.budget == "" || k.reset.IsZero() {
		return twins
	}
	for n := 0; n < len(g.pairs); n++ {
		p := g.pairs[n]
		side := slices.Index(p.of[:], k)
		if side < 0 {
			continue
		}
		switch p.weigh(side) {
		case yes:
			g.absolve(p.of[0])
			g.absolve(p.of[1])
			return m.report(p.of[0].budget, p.of[1].budget)
		case no:
			g.pairs = slices.Delete(g.pairs, n, n+1)
			n--
		}
	}
	if k.hits%8 == 1 || !slices.Contains(g.suspects, k) {
		m.pair(g, k)
	}
	return twins
}

// pair puts a budget beside each of the suspects whose windows end with its own.
func (m *Routes) pair(g *group, k *memory) {
	for _, o := range g.suspects {
		if o == k || o.reset.IsZero() || !o.resets(k.reset, k.resolution) || len(g.pairs) >= g.atMost(mostPairs) {
			continue
		}
		known := slices.ContainsFunc(g.pairs, func(p *pair) bool {
			return p.of[0] == k && p.of[1] == o || p.of[0] == o && p.of[1] == k
		})
		if known || m.twins[ordered(k.budget, o.budget)] {
			continue
		}
		g.pairs = append(g.pairs, newPair(k, o))
	}
	if !slices.Contains(g.suspects, k) {
		if len(g.suspects) >= g.atMost(mostSuspects) {
			g.absolve(g.suspects[0])
		}
		g.suspects = append(g.suspects, k)
	}
}

// weigh looks at a pair after one of it saw use by others: yes is twins, no is
// that it is surely not the other's.
func (p *pair) weigh(side int) verdict {
	k, o := p.of[side], p.of[1-side]
	if !o.resets(k.reset, k.resolution) {
		return no
	}
	seen, used := k.foreign-p.foreign[side], o.own-p.own[1-side]
	flight := 1 + o.flight(k)
	slack := max(seen, used)/10 + flight
	p.hits[side]++
	p.fine[side] = math.Abs(seen-used) <= slack && seen >= leastTwin && seen >= 2*slack && p.hits[side] >= leastHits
	switch {
	case p.fine[0] && p.fine[1]:
		return yes
	case seen > 2*(used+flight)+leastTwin, seen+used > 400 && !p.fine[side]:
		return no
	}
	return maybe
}

// flight is about how many requests of a budget are under way while one of
// another is.
func (k *memory) flight(o *memory) float64 {
	if k.gap <= 0 {
		return 0
	}
	return min(o.lag/k.gap, mostFlight)
}

// compare ends the pairs that an answer speaks against: one counter cannot show
// more later, nor the same again, as long as anything is left.
func (m *Routes) compare(g *group, k *memory, h *hearing) {
	if !h.said.Remaining.Known || h.said.Remaining.N < 1 {
		return
	}
	g.pairs = g.contradicted(g.pairs, k, h)
	if on := m.plain[g.alike]; on != nil && g.bucket == "" {
		on.pairs = g.contradicted(on.pairs, k, h)
	}
}

func (g *group) contradicted(pairs []*pair, k *memory, h *hearing) []*pair {
	if len(pairs) == 0 {
		return pairs
	}
	left := h.said.Remaining.N
	return slices.DeleteFunc(pairs, func(p *pair) bool {
		side := slices.Index(p.of[:], k)
		if side < 0 {
			return false
		}
		o := p.of[1-side]
		if !o.runs(h.now, 0) || !o.resets(h.said.Reset, h.said.Resolution) {
			return false
		}
		p.trails[side].add(nil, k, h)
		if g.refill(h, h.now) == 0 && o.shown(left) {
			return true
		}
		old, ok := p.trails[1-side].before(h)
		return ok && left >= old.left+g.refill(h, old.heard)
	})
}

// absolve ends the suspicions against a budget.
func (g *group) absolve(k *memory) {
	if k == nil {
		return
	}
	g.suspects = slices.DeleteFunc(g.suspects, func(o *memory) bool { return o == k })
	g.pairs = slices.DeleteFunc(g.pairs, func(p *pair) bool { return p.of[0] == k || p.of[1] == k })
}

// report says once that two budgets are one.
func (m *Routes) report(a, b string) [2]string {
	key := ordered(a, b)
	if m.twins[key] || len(m.twins) >= mostTwins {
		return [2]string{}
	}
	m.twins[key] = true
	return key
}

func ordered(a, b string) [2]string {
	if b < a {
		a, b = b, a
	}
	return [2]string{a, b}
}
