package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// memory is what a group showed last for a budget.
type memory struct {
	budget      string
	route       *route // that showed it
	sent, heard time.Time
	before      time.Time // the answer before that
	reset       time.Time
	resolution  time.Duration
	left        learn.Amount

	own, foreign float64     // units so far: answers, and what others used
	hits         int         // answers that showed such use
	recent       [24]float64 // what was left, in this window
	many         int         // of them
	trail        *trace
	served       int     // answers in this window that were no refusals
	gap, lag     float64 // seconds between answers, and that one takes
}

// shown says whether one of the last answers showed that just so much was left.
// Of one counter no two answers do.
func (k *memory) shown(left float64) bool {
	return slices.Contains(k.recent[:min(k.many, len(k.recent))], left)
}

// unsure is how far apart two words of one reset may be.
func unsure(a, b time.Duration) time.Duration {
	return min(max(a, b, 0), time.Minute) + 3*time.Second
}

// runs says whether the window that was shown is surely not over.
func (k *memory) runs(now time.Time, window time.Duration) bool {
	switch {
	case !k.reset.IsZero():
		return now.Add(unsure(k.resolution, 0)).Before(k.reset)
	case window > 0:
		return now.Before(k.heard.Add(window))
	}
	return now.Before(k.heard.Add(time.Minute))
}

// resets says whether a reset is the one that was shown; what is unknown agrees.
func (k *memory) resets(reset time.Time, resolution time.Duration) bool {
	return k.reset.IsZero() || reset.IsZero() || k.reset.Sub(reset).Abs() <= unsure(k.resolution, resolution)
}

// refill is the most that may have come back by itself since a time.
func (g *group) refill(h *hearing, since time.Time) float64 {
	rate := h.said.Rate
	if rate <= 0 && (g.moving >= 2 || h.said.Reset.IsZero()) && g.window > 0 && g.amount.Known {
		rate = g.amount.N / g.window.Seconds()
	}
	if rate <= 0 {
		return 0
	}
	return rate*max(h.now.Sub(since), 0).Seconds() + 1
}

// A verdict says whether a route that shows a limit is taken into a group.
type verdict uint8

const (
	no verdict = iota
	maybe
	yes
)

// takes compares what a route says that is new to the group with what the group
// showed.
func (g *group) takes(h *hearing) verdict {
	if g.private || !g.fits(h.said) || g.mark == h.mark {
		return no
	}
	k := g.budgets[h.budget]
	if k == nil || !k.runs(h.now, g.window) {
		// Nothing says that it is another, so it is taken for this one, except
		// where each route is known to have its own.
		if h.documented() {
			return no
		}
		return maybe
	}
	if g.moving < 2 && !k.resets(h.said.Reset, h.said.Resolution) && !k.fills(g, h) {
		return no
	}
	left := h.said.Remaining
	overlap := h.sent.Before(k.heard)
	unpaced := g.moving >= 2 && g.window <= 0 && h.said.Rate <= 0
	if left.Known && k.left.Known && !overlap && !unpaced && left.N > k.left.N+g.refill(h, k.heard) {
		return no
	}
	return yes
}

// atMost is how many of something a group remembers: of parts there are many.
func (g *group) atMost(n int) int {
	if g.part != "" {
		return n / fewer
	}
	return n
}

// recent is the memory of a budget, which it makes if it has to.
func (g *group) recent(budget string) *memory {
	k := g.budgets[budget]
	if k != nil {
		return k
	}
	if g.budgets == nil {
		g.budgets = make(map[string]*memory)
	}
	if len(g.budgets) >= g.atMost(mostBudgets) {
		all := make([]*memory, 0, len(g.budgets))
		for _, o := range g.budgets {
			all = append(all, o)
		}
		slices.SortFunc(all, func(a, b *memory) int {
			return cmp.Or(a.heard.Compare(b.heard), cmp.Compare(a.budget, b.budget))
		})
		for _, o := range all[:g.atMost(spareBudget)] {
			delete(g.budgets, o.budget)
			g.absolve(o)
		}
	}
	k = &memory{budget: budget}
	g.budgets[budget] = k
	return k
}

// hear keeps what a route of a group shows of it. A route whose reset is twice
// not that of the others gets a group of its own.
func (m *Routes) hear(r *route, g *group, h *hearing) *group {
	said := h.said
	k := g.recent(h.budget)
	old := h.sent.Before(k.sent)
	if !old && k.runs(h.now, 0) && !k.reset.IsZero() && said.Reset.After(h.now.Add(unsure(said.Resolution, 0))) {
		in := r.in(g)
		switch agrees := k.resets(said.Reset, said.Resolution); {
		case agrees && k.route != r:
			in.clash = 0
		case agrees:
			if g.moving == 1 {
				g.moving = 0
			}
		case k.route == r, k.fills(g, h):
			g.moving = min(g.moving+1, 2)
		case g.moving < 2 && g.bucket == "" && g.routes > 1:
			if in.clash++; in.clash >= 2 {
				return m.hear(r, m.split(r, g, h), h)
			}
		}
	}
	if g.rises(r, k, h) {
		return m.hear(r, m.split(r, g, h), h)
	}
	g.seen = h.now
	if said.Reset.After(g.until) {
		g.until = said.Reset
	}
	m.complete(g, said)
	if same := k.resets(said.Reset, said.Resolution); same || !old {
		if !same {
			k.many, k.served = 0, 0
		}
		if !h.lesson.Throttled {
			k.served++
		}
		m.compare(g, k, h)
		if said.Remaining.Known && said.Remaining.N >= 1 { // nothing is shown again and again
			k.recent[k.many%len(k.recent)] = said.Remaining.N
			k.many++
		}
	}
	if !k.heard.IsZero() {
		k.gap += (max(h.now.Sub(k.heard), 0).Seconds() - k.gap) / 8
	}
	k.lag += (max(h.now.Sub(h.sent), 0).Seconds() - k.lag) / 8
	k.own++
	k.before, k.heard = k.heard, h.now
	switch {
	case !old:
		k.route, k.sent = r, h.sent
		k.left, k.reset, k.resolution = believed(said.Remaining), said.Reset, said.Resolution
	case said.Remaining.Known && k.left.Known && said.Remaining.N < k.left.N:
		k.left.N = said.Remaining.N
	}
	return m.spent(r, g, k, h)
}

// rises hears whether more is left than another route of the group showed before
// this request was sent, and says whether that has been often enough. Where one
// route shows such a thing by itself it proves nothing.
func (g *group) rises(r *route, k *memory, h *hearing) bool {
	left := h.said.Remaining
	if !left.Known || g.moving >= 2 || k.reset.IsZero() || !k.runs(h.now, 0) || !k.resets(h.said.Reset, h.said.Resolution) {
		return false
	}
	if g.bucket != "" || g.routes < 2 {
		k.trail = nil
		return false
	}
	if k.trail == nil {
		k.trail = &trace{}
	}
	old, ok := k.trail.before(h)
	k.trail.add(r, k, h)
	if !ok || left.N <= old.left+g.refill(h, old.heard) {
		return false
	}
	if k.fills(g, h) {
		g.moving = min(g.moving+1, 2)
		return false
	}
	if old.route == r {
		g.rose = min(g.rose+1, 2)
		return false
	}
	return g.rose < 2 && r.in(g).more(h.sent)
}

// fills says whether two answers look like one bucket whose reset is when it is full:
// what was used comes back by then, at one rate. Two windows have their resets
// whatever was used of them.
func (k *memory) fills(g *group, h *hearing) bool {
	left := h.said.Remaining
	if !g.amount.Known || !left.Known || !k.left.Known || h.said.Reset.IsZero() || k.reset.IsZero() || k.heard.IsZero() {
		return false
	}
	low, high := pacing(k.reset.Sub(k.heard), k.resolution, g.amount.N-k.left.N)
	least, most := pacing(h.said.Reset.Sub(h.now), h.said.Resolution, g.amount.N-left.N)
	return high > 0 && most > 0 && low <= most && least <= high
}

// pacing is how many seconds a unit takes to come back, at least and at most, if so
// many are back in so long. Of the last one a part may be back already.
func pacing(in, resolution time.Duration, used float64) (least, most float64) {
	if used < 3 || in <= 0 {
		return 0, 0 // it could be anything
	}
	slack := max(resolution, 10*time.Millisecond)
	return max((in-slack).Seconds(), 0) / used, (in + slack).Seconds() / (used - 1)
}

// complete adds to a group what was not known of it.
func (m *Routes) complete(g *group, said *learn.Limit) {
	if !g.fits(said) || (g.amount.Known || !said.Limit.Known) && (g.window > 0 || said.Window <= 0) {
		return
	}
	if !g.amount.Known {
		g.amount = believed(said.Limit)
	}
	g.window = max(g.window, said.Window)
	if title := g.entitle(); title != g.title {
		g.title = title
		clear(m.shared)
		m.rebuildOf(g)
	}
}
