package ledger

import (
	"cmp"
	"math"

	"github.com/abide-proxy/abide/limit/learn"
)

// allowance calculates how many units a server still allows.
//
// The level is the units that may be taken after all that were taken already. An
// announcement was true when the server wrote it: of the units taken by now the server may
// have counted all, or only those whose responses had arrived when its request was sent. So
// each announcement gives a lower and an upper bound, and the level changes only to stay
// between both. Requests in flight never lower it, then; use by other clients does. Not
// safe for concurrent use.
type allowance struct {
	unit     learn.Unit
	reserved Reserve
	kind     refillKind
	counts   bool // the server announces the units left

	limit   float64 // 0: unknown
	level   float64
	levelAt int64 // time of level
	refill  refill
	cost    cost
	flights flights
	window  window
	recent  recent
	usage   usage
	shared  bool // other instances of a fleet take units of the window, too

	uncounted   int64   // units of responses that the server may not have counted
	unexplained float64 // units that may come back without telling anything
	increasedAt int64   // when more units were left than before
	backoff     int64   // interval of probes if the reset is unknown
	evidence    evidence
	phase       phase
}

// refill is the rate at which units come back, if they come back continuously.
type refill struct {
	rate      float64      // in units per second
	announced bool         // the rate is announced, or follows from announced resets
	byReset   float64      // lower bound by announced resets
	byCount   float64      // lower bound by the units left, if no reset is announced
	starts    refillStarts // from which byCount is calculated
}

// pause returns the wait after a first refusal that names no time: for one request of a cost,
// if the limit refills at a known rate.
func (r *refill) pause(refills bool, cost float64) int64 {
	rate := max(r.rate, r.byReset)
	if !refills || rate <= 0 {
		return second
	}
	return max(min(plus(0, cost/rate), maxProbePause*second), second/10)
}

// usage is the units used recently, by this process and by other clients.
type usage struct {
	own, foreign             int64 // in the present window
	ownBefore, foreignBefore int64 // in earlier windows, halved with each
	foreignAt                int64 // last use by other clients; 0: never
}

// newWindow begins a window of which own units are already used.
func (u *usage) newWindow(units int64) {
	u.ownBefore = (u.ownBefore + u.own) / 2
	u.foreignBefore = (u.foreignBefore + u.foreign) / 2
	u.own, u.foreign = units, 0
}

// evidence counts the announcements that tell the kind of a limit.
type evidence struct {
	scores       [sliding + 1]int8
	sample       sample
	steadyResets int8 // times that the reset stayed although more was used
}

// refillsContinuously reports whether the level rises continuously.
func (a *allowance) refillsContinuously() bool { return a.refill.rate > 0 && a.kind >= refilling }

func (a *allowance) cap(level float64) float64 {
	return min(level, cmp.Or(a.limit, float64(maxAmount)))
}

// spend returns the units that may be taken now.
func (a *allowance) spend() float64 {
	level := math.Inf(1)
	if a.counts || a.limit > 0 && (a.kind < refilling && a.window.over > 0 || a.refillsContinuously()) {
		level = a.level
	}
	if a.kind == sliding && a.recent.on && a.limit > 0 {
		level = min(level, a.rollingBound())
	}
	return level - a.reserve()
}

// rollingBound returns the units that a rolling window leaves if no other client uses the
// limit.
func (a *allowance) rollingBound() float64 {
	return a.limit - a.cost.each*float64(a.flights.unanswered()+a.recent.sum)
}

// maxTickReserve is the part of a limit that is not used because the units of a second may
// come back at once, at the end of the second. It is reserved once, not in each second.
const maxTickReserve = 0.02

func (a *allowance) reserve() float64 {
	reserve := max(float64(a.reserved.Units), a.limit*min(a.reserved.Percent, 100)/100)
	if a.usedByOthers() {
		if reserve = max(reserve, 1); a.limit >= 20 {
			reserve = max(reserve, 2, a.limit/100)
		}
	}
	if a.kind == refilling {
		reserve = max(reserve, min(a.refill.rate, maxTickReserve*a.limit))
	}
	if a.limit > 0 {
		reserve = max(min(reserve, a.limit-a.cost.each), 0)
	}
	return reserve
}

// usedByOthers reports whether other clients have recently used some of the limit.
func (a *allowance) usedByOthers() bool {
	return a.usage.foreignAt > 0 && a.levelAt-a.usage.foreignAt < max(3*a.window.period, minute)
}

func (a *allowance) pay(n int64) {
	a.level = min(max(a.level-a.cost.each*float64(n), -float64(maxAmount)), float64(maxAmount))
	a.usage.own = min(max(a.usage.own+n, 0), maxAmount)
	if a.cost.varies && n > 0 {
		a.unexplained += a.cost.each * float64(n) // it may cost less
	}
}

// begin takes the first announcement.
func (a *allowance) begin(r *reading) {
	a.level = max(a.limit-a.cost.each*float64(a.flights.unanswered()+1), -float64(maxAmount))
	if r.bounds.known {
		a.level = r.bounds.low
	}
	if !r.bounds.known && r.said.reset == 0 && r.said.period > 0 && r.said.limit > 0 && a.kind < refilling {
		a.becomeSliding(r.now, r.said.period)
		return
	}
	a.open(r)
	a.follow(r, false)
	if r.bounds.known {
		a.cost.sample(r.now, a.counted(r), r.said.left, r.bounds.uncounted, 0, false)
	}
}

// resize takes an announced limit and window length.
func (a *allowance) resize(h *announcement) {
	size := h.limit
	if size <= 0 && h.left >= 0 && a.limit < h.left+1 && (a.limit == 0 || a.window.limitGuessed) {
		size, a.window.limitGuessed = min(h.left+1, float64(maxAmount)), true // there was one more before this response
	}
	if size > 0 && size != a.limit {
		if a.limit > 0 {
			a.level = min(a.level+size-a.limit, size)
		} else {
			a.level = max(size-a.cost.each*float64(a.flights.unanswered()), -float64(maxAmount))
		}
		a.limit, a.cost.set = size, false
		a.cost.decreases.interrupt()
	}
	if h.period > 0 {
		a.window.period, a.window.lengthAnnounced = h.period, true
		if a.recent.on {
			a.recent.begin(h.period)
		}
	}
	if h.left >= 0 {
		a.counts = true
	}
	if h.rate > 0 && h.reset == 0 {
		a.refill.rate, a.refill.announced, a.kind = h.rate, true, refilling
	}
}

// bounds are the lower and the upper bound of the level, by one response.
type bounds struct {
	low, high float64
	uncounted int64 // units that the server may not have counted in it
	before    int64 // units taken before its own, including uncounted
	known     bool  // the units left were announced
}

func (a *allowance) bounds(r *reading) bounds {
	b := bounds{low: math.Inf(-1), high: math.Inf(1), uncounted: a.flights.uncounted(r.sent, r.own) + r.beside}
	b.before = a.flights.before(r.sent)
	if left := r.said.left; left >= 0 {
		b.high, b.known = left, true
		b.low = max(left-a.cost.each*float64(b.uncounted), -float64(maxAmount))
	}
	return b
}

// clamp moves the level between the bounds of a response.
func (a *allowance) clamp(r *reading) (news Surprise, gained float64) {
	if !r.bounds.known {
		return Surprise{}, 0
	}
	// The units left only decrease within a window. So a higher announcement was written
	// earlier, unless its request was sent later.
	w := &a.window
	stale := a.kind < refilling && w.lowestLeftAt > 0 && r.bounds.high > w.lowestLeft && r.sent < w.lowestLeftAt
	if !stale {
		w.lowestLeft, w.lowestLeftAt = r.bounds.high, r.now
	}
	was := a.level
	if was > r.bounds.high {
		a.cost.decreases.doubt()
		a.level = r.bounds.high
		if a.kindUncertain() {
			a.level = r.bounds.low
		}
		a.addForeignUse(r.now, was-r.bounds.high, &news)
	}
	if was < r.bounds.low && !stale {
		a.level = r.bounds.low
		gained = r.bounds.low - was
		if a.unexplained > 0 {
			by := min(a.unexplained, gained)
			a.unexplained -= by
			gained -= by
		}
	}
	if r.said.reset > 0 && a.kind < refilling && (a.cost.varies || a.unit != learn.Requests) {
		a.settle()
	}
	return news, gained
}

// settle gives back the part of the reserved units that requests with a response have not cost: all
// of them are counted in the lowest announcement of the window.
func (a *allowance) settle() {
	if w := &a.window; w.lowestLeftAt > 0 {
		a.level = max(a.level, w.lowestLeft-a.cost.each*float64(a.flights.unanswered()+a.uncounted-w.uncounted), -float64(maxAmount))
	}
}

// kindUncertain reports whether apparent use by others may be a limit whose units do not
// come back at its reset. Then only the lower bound is certain.
func (a *allowance) kindUncertain() bool {
	return a.kind == undecided && a.window.hadPrevious && a.window.reset > 0
}

// addForeignUse records units used by other clients.
func (a *allowance) addForeignUse(v int64, n float64, news *Surprise) {
	if a.shared || a.unit != learn.Requests || a.cost.each != 1 || n < 1 || a.window.limitGuessed {
		return
	}
	if a.kind != fixed && !(a.kind == refilling && a.refill.announced) && (a.kind != undecided || a.window.hadPrevious) {
		return // the limit may be of another kind
	}
	news.Foreign = whole(math.Floor(n))
	a.usage.foreign = min(a.usage.foreign+news.Foreign, maxAmount)
	a.usage.foreignAt = max(v, 1)
}

// plus returns v plus a number of seconds, clamped.
func plus(v int64, seconds float64) int64 {
	n := seconds * float64(second)
	if !(n < float64(maxAhead)) {
		return v + maxAhead
	}
	return v + int64(math.Ceil(max(n, 0)))
}

// number returns an announced amount, -1 if unknown.
func number(n float64, known bool) float64 {
	if !known || math.IsNaN(n) {
		return -1
	}
	return min(max(n, 0), float64(maxAmount))
}

func whole(n float64) int64 { return int64(min(max(n, -float64(maxAmount)), float64(maxAmount))) }

func amount(n int64) int64 { return min(max(n, 0), maxAmount) }
