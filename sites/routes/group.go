package routes

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Bounds of the limits of a site.
const (
	mostGroups     = 192 // announced
	mostHidden     = 64  // not announced
	mostBudgets    = 4096
	spareBudget    = 256 // records that are removed at once when there are more
	mostPartitions = 8   // of one limit
	mostAlike      = 4   // limits of one name and different amounts on one route
	forgetful      = time.Hour
)

// fewer divides the records of the limit of an entity: there are as many entities as clients ask
// for.
const fewer = 16

// nameKey is the name of a limit. Limits with the same key differ only in their amounts and
// resets.
type nameKey struct {
	host, name, partition string
	entity                string // the entity that has the limit for itself; "": none
	unit                  learn.Unit
}

// bucketKey is the name of a limit that has a bucket.
type bucketKey struct {
	bucket string
	limit  nameKey
}

// group is one limit of the site, and is shared by the routes that joined it.
type group struct {
	number uint64
	id     string
	title  string
	kind   Kind
	covers string // of Kind Hidden: the template of its routes; "": every route

	bucket   string // the server's name of the shared limit; "": none
	key      nameKey
	amount   learn.Amount
	window   time.Duration
	private  bool // the limit of one route alone
	site     bool // counts for all credentials together
	unshared bool // routes without a response are not assumed to be members

	routes  int // members
	seen    time.Time
	until   time.Time          // the latest announced reset
	budgets map[string]*record // :: budget → last announcement
	mark    uint64             // number of the response that showed the group last
	moving  int                // times that the reset moved inside a window; from 2 on, the reset always moves
	double  *group             // another group whose use explains the foreign use of this one: both may be one limit
	doubled int                // times in a row that double explained the use
}

// Kind selects the meter of a limit. If you add a kind, also change NewMeter in package sites.
type Kind uint8

const (
	Announced Kind = iota // needs ledger.New
	Hidden                // needs ledger.NewHiddenRate: the server refuses without announcing a limit
)

// observation is one limit of a response, before its group is known.
type observation struct {
	now, sent time.Time
	budget    string
	said      *learn.Limit
	lesson    *learn.Lesson
	mark      uint64
}

// documented reports whether each route is known to have a limit like this of its own.
func (h *observation) documented() bool {
	return h.lesson.Documented == learn.Route && h.said.Name == ""
}

// like reports whether two groups could be one.
func (g *group) like(o *group) bool {
	return g.kind == o.kind && g.bucket == o.bucket && g.key == o.key && agree(g.amount, o.amount) && agreeWindow(g.window, o.window)
}

func agree(a, b learn.Amount) bool { return !a.Known || !b.Known || a.N == b.N }

func agreeWindow(a, b time.Duration) bool { return a <= 0 || b <= 0 || a == b }

// fits reports whether an announced limit can be that of the group.
func (g *group) fits(said *learn.Limit) bool {
	return agree(g.amount, said.Limit) && agreeWindow(g.window, said.Window)
}

// rank returns how well an announced limit fits a group; below 0 it does not.
func (g *group) rank(h *observation) int {
	if !g.fits(h.said) {
		return -1
	}
	rank := 0
	if g.amount.Known && h.said.Limit.Known {
		rank += 4
	}
	if k := g.budgets[h.budget]; k != nil && !k.reset.IsZero() && !h.said.Reset.IsZero() && k.sameReset(h.said.Reset, h.said.Resolution) {
		rank += 2
	}
	if g.bucket == "" {
		rank++
	}
	return rank
}

// mayBe reports whether two groups may turn out to be one.
func (g *group) mayBe(o *group) bool {
	return !g.private && !o.private && g.amount.Known && g.amount == o.amount && agreeWindow(g.window, o.window)
}

// moves reports whether a group shows for a budget what another group shows, and has
// been used since the response before.
func (g *group) moves(o *group, k *record, foreign float64) bool {
	ours := g.budgets[k.budget]
	if ours == nil || !g.mayBe(o) || !ours.sameEnd(k) || !ours.left.Known || !k.left.Known {
		return false
	}
	if ours.hasShown(k.left.N) || k.hasShown(ours.left.N) || k.sent.After(ours.heard) && k.left.N >= max(ours.left.N, 1) {
		return false // one counter does not show both
	}
	return ours.heard.After(k.before) && math.Abs(ours.left.N-k.left.N) <= 2+foreign/8
}

// atMost returns a bound of the records of a group: n, or less for the limit of an entity.
func (g *group) atMost(n int) int {
	if g.key.entity != "" {
		return n / fewer
	}
	return n
}

// record returns the record of a budget. It makes one if there is none.
func (g *group) record(budget string) *record {
	k := g.budgets[budget]
	if k != nil {
		return k
	}
	if len(g.budgets) >= g.atMost(mostBudgets) {
		all := slices.SortedFunc(maps.Values(g.budgets), func(a, b *record) int {
			return cmp.Or(a.heard.Compare(b.heard), cmp.Compare(a.budget, b.budget))
		})
		for _, o := range all[:g.atMost(spareBudget)] {
			delete(g.budgets, o.budget)
		}
	}
	k = &record{budget: budget}
	g.budgets[budget] = k
	return k
}

// refill returns the most units that may have come back since a time.
func (g *group) refill(h *observation, since time.Time) float64 {
	rate := h.said.Rate
	if rate <= 0 && (g.moving >= 2 || h.said.Reset.IsZero()) && g.window > 0 && g.amount.Known {
		rate = g.amount.N / g.window.Seconds()
	}
	if rate <= 0 {
		return 0
	}
	return rate*max(h.now.Sub(since), 0).Seconds() + 1
}

// accepts compares what a route has announced with what the group has shown so far.
func (g *group) accepts(h *observation) verdict {
	if g.private || !g.fits(h.said) || g.mark == h.mark {
		return no
	}
	k := g.budgets[h.budget]
	if k == nil || !k.running(h.now, g.window) {
		// Nothing speaks against this group, unless each route has a limit of its own.
		if h.documented() {
			return no
		}
		return maybe
	}
	if g.moving < 2 && !k.sameReset(h.said.Reset, h.said.Resolution) && !k.sameRefill(g, h) {
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

// verdict says whether a route joins a group whose limit it shows.
type verdict uint8

const (
	no verdict = iota
	maybe
	yes
)

// record is the last announcement of a group for a budget.
type record struct {
	budget      string
	route       uint64 // number of the route that showed it
	sent, heard time.Time
	before      time.Time // when the response before was heard
	reset       time.Time
	resolution  time.Duration
	left        learn.Amount

	recent [24]float64 // announced remaining amounts in this window
	many   int         // number of values in recent
	served int         // responses in this window that were no refusals
}

// hasShown reports whether a response of late showed that just so much was left. Two
// responses of one counter never show the same.
func (k *record) hasShown(left float64) bool {
	return slices.Contains(k.recent[:min(k.many, len(k.recent))], left)
}

// running reports whether the window that was shown is certainly not over.
func (k *record) running(now time.Time, window time.Duration) bool {
	switch {
	case !k.reset.IsZero():
		return now.Add(tolerance(k.resolution, 0)).Before(k.reset)
	case window > 0:
		return now.Before(k.heard.Add(window))
	}
	return now.Before(k.heard.Add(time.Minute))
}

// sameReset reports whether a reset can be the one that was shown. An unknown reset can.
func (k *record) sameReset(reset time.Time, resolution time.Duration) bool {
	return k.reset.IsZero() || reset.IsZero() || k.reset.Sub(reset).Abs() <= tolerance(k.resolution, resolution)
}

// sameAmount reports whether two records have shown the same amount, which one counter
// does not.
func (k *record) sameAmount(o *record) bool {
	return slices.ContainsFunc(k.recent[:min(k.many, len(k.recent))], o.hasShown)
}

// sameEnd reports whether two windows certainly end together.
func (k *record) sameEnd(o *record) bool {
	return !k.reset.IsZero() && !o.reset.IsZero() && k.sameReset(o.reset, o.resolution)
}

// sameRefill reports whether two responses look like one bucket that is full at its reset: the
// used units come back by then at one rate. The reset of a window does not depend on its use.
func (k *record) sameRefill(g *group, h *observation) bool {
	left := h.said.Remaining
	if !g.amount.Known || !left.Known || !k.left.Known || h.said.Reset.IsZero() || k.reset.IsZero() || k.heard.IsZero() {
		return false
	}
	low, high := unitTime(k.reset.Sub(k.heard), k.resolution, g.amount.N-k.left.N)
	least, most := unitTime(h.said.Reset.Sub(h.now), h.said.Resolution, g.amount.N-left.N)
	return high > 0 && most > 0 && low <= most && least <= high
}

// tolerance returns by how much two announcements of one reset may differ.
func tolerance(a, b time.Duration) time.Duration {
	return min(max(a, b, 0), time.Minute) + 3*time.Second
}

// unitTime returns the seconds in which a unit comes back, at least and at most, if the used
// units are back in that time. Part of the last unit may be back already.
func unitTime(in, resolution time.Duration, used float64) (least, most float64) {
	if used < 3 || in <= 0 {
		return 0, 0 // too few to tell
	}
	slack := max(resolution, 10*time.Millisecond)
	return max((in-slack).Seconds(), 0) / used, (in + slack).Seconds() / (used - 1)
}
