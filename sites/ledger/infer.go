package ledger

import (
	"cmp"
	"math"
	"slices"

	"github.com/abide-proxy/abide/limit/learn"
)

// sample is an announcement, compared with a later one of the same window.
type sample struct {
	at, reset int64
	earliest  int64 // of the reset
	used      float64
	blur      int64
	last      int64 // the newest reset
	moves     int   // times that the reset has moved on since
}

// minEvidence more announcements must indicate a kind than any other.
const minEvidence = 2

// infer learns from a response the cost of a request, the refill, and the kind of the
// limit.
func (a *allowance) infer(r *reading, first bool) {
	if r.said.left < 0 {
		return
	}
	if first && a.unit != learn.Requests {
		a.cost.each = 1
		if a.limit > r.said.left && a.unit != learn.Percent {
			a.cost.each = min(max(3*(a.limit-r.said.left), 1), max(a.limit/4, 1)) // others may take more
		}
	}
	a.inferCost(r)
	if r.said.reset == 0 && !a.refill.announced {
		a.inferLeastRate(r)
	}
	if r.said.reset > 0 && a.limit > 0 {
		a.inferRate(r)
		a.inferKind(r)
	}
}

// inferCost learns the cost of a request from the decrease of the units left.
func (a *allowance) inferCost(r *reading) {
	if r.said.reset > 0 && a.kind < refilling && a.window.place(&r.said) != same {
		return
	}
	n := a.counted(r)
	var fill float64
	if a.kind >= refilling {
		fill = a.refill.rate
		if a.limit > 0 && a.cost.left+fill*float64(r.now-a.cost.at)/float64(second) >= a.limit {
			// The bucket may have been full meanwhile.
			if a.cost.left, a.cost.at = a.limit, r.now; n != a.cost.answered+1 {
				a.cost.forget()
			}
		}
	}
	if a.unit != learn.Requests && a.cost.decreases.highest() > 0 {
		return // costs of single requests are known
	}
	off := float64(max(r.bounds.uncounted, a.cost.uncertain)) / float64(max(n-a.cost.answered, 1))
	x, n, ok := a.cost.sample(r.now, n, r.said.left, r.bounds.uncounted, fill, a.unit != learn.Requests)
	if !ok {
		return
	}
	was := a.cost.each
	if a.unit == learn.Requests {
		if a.cost.add(x, n); a.cost.varies {
			return
		}
		a.cost.constant(x, a.limit, min(off, 0.15))
	} else {
		a.cost.add(x, n)
		a.expectCost()
	}
	if more := a.cost.each - was; more > 0 {
		a.level -= more * float64(a.flights.unanswered())
	}
}

// expectCost sets the cost of a request under a limit that does not count requests.
func (a *allowance) expectCost() {
	was, least := a.cost.each, 1.
	if a.unit == learn.Percent {
		least = 0.01
	}
	a.cost.variable(least, a.limit)
	if a.unit != learn.Percent && a.cost.count < 8 && a.cost.alike < enoughAlike {
		a.cost.each = max(a.cost.each, was) // a few samples do not prove a lower cost
	}
}

// inferVaryingCost learns whether requests cost more than a unit of a limit that seems to
// count requests, and the most that one costs. Until more is known, that is reserved for
// each request. Of limits that count something else, it learns what single requests cost.
func (a *allowance) inferVaryingCost(r *reading) {
	c := &a.cost
	if a.kind >= refilling && c.varies {
		c.varies, c.each = false, 1 // units that came back looked like cheaper requests
	}
	if a.kind >= refilling || !r.bounds.known || r.said.reset == 0 {
		return
	}
	requests := a.unit == learn.Requests
	if requests && c.decreases.certain() {
		return
	}
	idle := r.sent-c.decreases.at > longestIdle
	c.decreases.at = r.now
	if outside := r.own == 0 || r.denied || a.window.place(&r.said) != same; idle || outside {
		if c.decreases.interrupt(); outside {
			return
		}
	}
	c.decreases.add(announcedLeft{r.now, r.said.left, r.own}, a.flights.oldest(r.now), func(x float64) {
		if c.decreases.settle(x); !requests {
			c.add(x, 1)
		}
	})
	if !requests {
		if c.decreases.count > 0 {
			a.expectCost()
			a.settle()
		}
		return
	}
	was := c.varies
	if c.varies = c.decreases.vary(); !c.varies {
		if was {
			a.unexplained += c.each * float64(a.flights.unanswered())
			c.each = 1
		}
		return
	}
	c.each = min(max(c.decreases.highest(), 1), max(a.limit, 1))
	if !was {
		a.usage.foreign, a.usage.foreignAt = 0, 0 // that was what they cost
	}
	if a.window.lowestLeftAt > 0 {
		// All that have responses are counted in the lowest announcement.
		a.level = max(a.window.lowestLeft-c.each*float64(a.flights.unanswered()), -float64(maxAmount))
	}
}

// counted returns how many units the server has counted: certainly for requests,
// approximately for other units.
func (a *allowance) counted(r *reading) int64 {
	if a.unit == learn.Requests {
		return a.flights.taken - r.bounds.uncounted
	}
	return r.bounds.before - a.uncounted
}

// inferRate learns the refill rate of a limit that is full at its reset: the used units
// come back until then. Part of the last unit may be back already, and the reset may be
// later by its resolution, so this is a lower bound. The server wrote the reset after the
// request was sent; a reset announced as a duration counts from now.
func (a *allowance) inferRate(r *reading) {
	used := a.limit - r.said.left
	if used < 2 || r.said.certainEnd <= r.now {
		return
	}
	from := r.now
	if !r.said.exact {
		from = r.sent
	}
	least := min(float64(maxAmount), (used-1)/(float64(r.said.certainEnd-from+second/1000)/float64(second)))
	upper := math.Inf(1)
	early := r.said.slop + maxSkewLeft
	if r.said.exact {
		early = r.said.certainEnd - r.said.reset // the reset may have been rounded up
	}
	if at := r.said.reset - r.now - early; at > 0 {
		upper = max(used/(float64(at)/float64(second)), least)
	}
	switch {
	case a.kind != refilling:
		a.refill.byReset = max(a.refill.byReset, least)
	case !a.refill.announced:
		a.refill.announced, a.refill.rate = true, min(max(a.refill.byReset, least), upper)
	default:
		a.refill.rate = min(max(a.refill.rate, least), upper)
	}
}

// inferKind learns the kind of the limit: each kind predicts the reset of a later
// announcement from an earlier one.
func (a *allowance) inferKind(r *reading) {
	now := sample{at: r.now, reset: r.said.reset, earliest: r.said.earliest, used: a.limit - r.said.left, blur: r.said.blur, last: r.said.reset}
	old := &a.evidence.sample
	if now.reset-old.last > now.blur/2 {
		old.last, old.moves = now.reset, old.moves+1
	}
	// Of two windows that have ended the second lasted for half of what the reset has moved on, at least.
	two := old.moves > 1 && 2*(now.at-old.at) < now.reset-old.reset-now.blur
	switch over := now.at >= old.earliest && !two; {
	case now.used < 1, over && old.moves < 2 && now.at-old.at < now.blur/2, // it may move on again
		!over && a.window.lengthAnnounced && math.Abs(math.Abs(float64(now.reset-old.reset))-float64(a.window.period)) < float64(r.said.step): // requests that were sent together may be of two windows
		return
	case over, old.at == 0:
		a.evidence.sample = now
		return
	}
	slop := float64(max(old.blur, now.blur))
	var errors [sliding + 1]float64
	errors[fixed] = math.Abs(float64(now.reset - old.reset))
	errors[sliding] = math.Abs(float64((now.reset - now.at) - (old.reset - old.at)))
	// The announcement with more use tells the rate more exactly.
	few, many := *old, now
	if few.used > many.used {
		few, many = many, few
	}
	each := float64(many.reset-many.at) / many.used
	// What is left is announced in whole units, so it is off by up to one on either side.
	errors[refilling] = max(math.Abs(float64(few.at)+few.used*each-float64(few.reset))-2*each, 0)
	if errors[fixed] <= slop && errors[refilling] >= 2*slop {
		a.evidence.steadyResets = min(a.evidence.steadyResets+1, 8)
	}
	kinds := [...]refillKind{fixed, refilling, sliding}
	slices.SortStableFunc(kinds[:], func(x, y refillKind) int { return cmp.Compare(errors[x], errors[y]) })
	best, second := kinds[0], errors[kinds[1]]
	if errors[best] > slop || second < 1.5*slop || best == refilling && second < 2*each {
		return
	}
	a.evidence.sample = now
	more := int8(1)
	if best == refilling && second >= 1.8*slop {
		more = minEvidence // neither a window nor a rolling one announces such resets
	}
	a.evidence.scores[best] = min(a.evidence.scores[best]+more, 8)
	others := int8(0)
	for _, k := range kinds[1:] {
		a.evidence.scores[k] = max(a.evidence.scores[k]-1, 0)
		others = max(others, a.evidence.scores[k])
	}
	if a.evidence.scores[best] < others+minEvidence || a.kind == best {
		return
	}
	switch best {
	case fixed:
		if a.kind == undecided || a.kind == refilling {
			a.kind, a.refill.rate, a.refill.byReset, a.refill.announced = fixed, 0, 0, false
			a.window.reset, a.window.over = r.said.reset, r.said.certainEnd
		}
	case refilling:
		a.kind, a.refill.rate, a.refill.announced = refilling, 0, false
		a.window.over, a.window.reset = 0, 0
		if a.unit == learn.Requests {
			a.flights.maxInFlight = 0
		}
		a.cost.begin() // units that came back meanwhile were not counted
		a.level = min(a.level, r.bounds.low)
		if a.inferRate(r); !a.refill.announced && a.refill.byReset > 0 {
			a.refill.announced, a.refill.rate = true, a.refill.byReset
		}
	case sliding:
		a.becomeSliding(r.now, r.said.reset-r.now)
	}
}

// seemsToRefill reports whether units come back continuously, as far as is known.
func (a *allowance) seemsToRefill() bool {
	if a.kind != undecided {
		return a.kind == refilling
	}
	scores := &a.evidence.scores
	return scores[refilling] > max(scores[fixed], scores[sliding])
}

// becomeSliding makes the limit one of a rolling window.
func (a *allowance) becomeSliding(v, period int64) {
	a.kind, a.refill.announced = sliding, false
	a.window.period = max(period, 1)
	if !a.recent.on {
		a.recent.begin(a.window.period)
		a.flights.eachAnswered(func(at, n int64) {
			if at > v-a.window.period {
				a.recent.add(at, n)
			}
		})
	}
	a.refill.rate = a.limit / (float64(a.window.period) / float64(second))
	a.window.over, a.window.reset = 0, 0
}

// updateRefilling updates a limit whose units come back continuously.
func (a *allowance) updateRefilling(r *reading) Surprise {
	// The server wrote the announcement some time since the request was sent, in whole units.
	r.bounds.high += 1 + 1.1*a.refill.rate*float64(r.now-r.sent)/float64(second)
	if r.probe && a.kind == refilling && r.bounds.known {
		a.level = max(a.level, min(r.bounds.low, r.bounds.high))
	}
	news, _ := a.clamp(r)
	a.level = a.cap(a.level)
	if a.kind == sliding {
		news = Surprise{}
		if a.recent.on && a.limit > 0 && r.bounds.known {
			if over := r.bounds.low - a.rollingBound(); over >= 1 {
				a.recent.remove(whole(over / a.cost.each))
			}
		}
		return news
	}
	if !a.refill.announced {
		a.refill.rate = max(a.refill.byCount, 0)
	}
	return news
}

// refillStart is an announcement from which the refill is measured.
type refillStart struct {
	at     int64   // the announcement was written after this
	maxSum float64 // upper bound of units taken by then plus units left
}

// refillStarts are an older and a newer start.
type refillStarts struct{ old, new refillStart }

// refillStartInterval is the time between both.
const refillStartInterval = minute

// inferLeastRate learns the refill rate of a limit without announced resets. Units that
// were taken between two announcements and are left nevertheless have come back. That is a
// lower bound, because requests in flight are uncertain and a full bucket does not refill;
// over longer times it is more exact.
func (a *allowance) inferLeastRate(r *reading) {
	if !r.bounds.known {
		return
	}
	each := a.cost.each
	if a.unit != learn.Requests {
		each = a.cost.mean
	}
	counted := each * float64(a.flights.taken-r.bounds.uncounted-a.uncounted)
	starts := &a.refill.starts
	for _, from := range [...]refillStart{starts.old, starts.new} {
		if from.at > 0 && r.now-from.at >= second {
			a.refill.byCount = max(a.refill.byCount, from.slope(r.now, r.said.left+counted))
		}
	}
	now := refillStart{at: max(r.sent, 1), maxSum: r.said.left + 1 + each*float64(a.flights.taken-a.uncounted)}
	switch {
	case starts.old.at == 0:
		starts.old = now
	case starts.new.at == 0:
		if r.now-starts.old.at >= refillStartInterval/4 {
			starts.new = now
		}
	case r.now-starts.new.at >= refillStartInterval:
		if starts.new.slope(r.now, r.said.left+counted) >= starts.old.slope(r.now, r.said.left+counted) {
			starts.old = starts.new
		}
		starts.new = now
	}
}

// slope returns the units a second that have come back since r.
func (r refillStart) slope(v int64, top float64) float64 {
	return (top - r.maxSum) / (float64(v-r.at) / float64(second))
}

// updateByLeft updates a limit that announces only the units left.
func (a *allowance) updateByLeft(r *reading) Surprise {
	w := &a.window
	news, gained := a.clamp(r)
	if gained < 1 {
		return news
	}
	// Units came back: all at once, or some.
	since := r.now - a.increasedAt
	all := a.limit > 0 && r.bounds.high >= a.limit-a.cost.each*(float64(a.flights.unanswered())+2.5)
	switch {
	case all && !w.returnsOneByOne && gained >= a.limit/2 && since > 0 && since <= maxAhead:
		a.refill.starts, a.refill.byCount = refillStarts{}, 0
		w.period, w.lengthAnnounced = since, false
		w.over = r.now + since
		w.opened = r.now
		a.usage.newWindow(a.flights.unanswered() + 1)
	case !all && since >= second/10 && a.limit > 0:
		if w.partialReturns++; w.partialReturns < 3 {
			return news // the requests before may have cost nothing
		}
		a.kind, a.refill.rate = refilling, max(a.refill.byCount, 0)
	}
	a.increasedAt = r.now
	return news
}
