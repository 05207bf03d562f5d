package ledger

import (
	"math"

	"github.com/abide-proxy/abide/learn"
)

// sample is what one answer said, to be compared with a later one of the same
// window.
type sample struct {
	at, reset int64
	used      float64
	slop      int64
}

// start is a time from which resets have moved.
type start struct {
	taken, reset, slop int64
	limit              float64
}

const certain = 2 // how much more often a kind must have been right than another

// learn learns what a request costs and of what kind the limit is.
func (l *Ledger) learn(v, sent int64, first bool, b *bounds, h told) {
	if h.left < 0 {
		return
	}
	if first && l.options.Unit != learn.Requests {
		l.cost.each = 1
		if l.limit > h.left && l.options.Unit != learn.Percent {
			l.cost.each = min(max(3*(l.limit-h.left), 1), max(l.limit/4, 1)) // others may take more
		}
	}
	l.price(v, *b, h)
	if h.exact && h.reset > 0 {
		// Each that is counted makes it full later. So of all answers the one by which
		// that is latest was written last, and has counted all that are answered.
		if step := h.over - h.reset; l.kind == refilling && h.reset-step >= l.fullAt {
			b.low = max(b.low, h.left-l.cost.each*float64(l.flights.unanswered()))
		}
		l.fullAt = max(l.fullAt, h.over)
	}
	if h.reset == 0 && !l.rated {
		l.climb(v, sent, *b)
	}
	if h.reset > 0 && l.limit > 0 {
		l.pace(v, sent, *b, h)
		l.judge(v, sent, *b, h)
	}
}

// price learns the cost from differences of what was left.
func (l *Ledger) price(v int64, b bounds, h told) {
	if l.sharing.number != 0 || h.reset > 0 && l.kind < refilling && l.place(h) != same {
		return
	}
	var fill float64
	if l.kind >= refilling {
		fill = l.rate
		if l.limit > 0 && l.cost.left+fill*float64(v-l.cost.at)/float64(second) >= l.limit {
			l.cost.forget() // it may have been full meanwhile
		}
	}
	n := l.counted(b)
	off := float64(max(b.uncounted, l.cost.few)) / float64(max(n-l.cost.answered, 1))
	sample := l.cost.sample
	if l.options.Unit != learn.Requests {
		sample = l.cost.roughly
	}
	x, n, ok := sample(v, n, h.left, b.uncounted, fill)
	if !ok {
		return
	}
	was := l.cost.each
	switch l.options.Unit {
	case learn.Requests:
		l.cost.add(x, n)
		l.cost.constant(x, l.limit, 1, min(off, 0.15))
	case learn.Percent:
		l.cost.add(x, n)
		l.cost.variable(0.01, l.limit)
	default:
		l.cost.add(x, n)
		l.cost.variable(1, l.limit)
		if l.cost.count < 8 {
			l.cost.each = max(l.cost.each, was) // few are no reason to be less careful
		}
	}
	if more := l.cost.each - was; more > 0 {
		l.level -= more * float64(l.flights.unanswered())
	}
}

// counted is how many units the server has counted: surely, or, where that is enough,
// probably.
func (l *Ledger) counted(b bounds) int64 {
	if l.options.Unit == learn.Requests {
		return l.flights.taken - b.uncounted
	}
	return b.before - l.void
}

// pace learns the rate of a limit of which the reset is when it is full: what was
// used comes back until then. Of what was used the last unit may be a part, and
// the reset may be later by its resolution: the rate is at least this. It was used when
// the answer was written, which may be as long ago as its request was sent; a time that
// was said to be so long from then is counted from now.
func (l *Ledger) pace(v, sent int64, b bounds, h told) {
	used := l.limit - h.left
	if used < 2 || h.over <= v {
		return
	}
	from := v
	if !h.exact {
		from = sent
	}
	least := min(float64(most), (used-1)/(float64(h.over-from+second/1000)/float64(second)))
	least = max(least, l.moved(v, b, h))
	upper := math.Inf(1)
	early := h.slop
	if h.exact {
		early = h.over - h.reset // as it may have been rounded up
	}
	if at := h.reset - v - early; at > 0 {
		upper = max(used/(float64(at)/float64(second)), least)
	}
	switch {
	case l.kind != refilling:
		l.floor = max(l.floor, least)
	case !l.rated:
		l.rated, l.rate = true, min(max(l.floor, least), upper)
	default:
		l.rate = min(max(l.rate, least), upper)
	}
}

// moved is a rate that is no larger than the limit's: each request that is counted
// moves the time when it is full by what a unit takes to come back.
func (l *Ledger) moved(v int64, b bounds, h told) float64 {
	f := &l.from
	if l.kind != refilling || l.options.Unit != learn.Requests || l.cost.each != 1 {
		f.reset = 0
		return 0
	}
	n := l.flights.taken - b.uncounted - f.taken
	by := h.reset - f.reset
	switch {
	case f.reset == 0 || f.limit != l.limit || n < 0 || n > 1<<16 || by < 0 && n > 0:
		*f = start{taken: l.flights.taken, reset: h.reset, slop: h.slop, limit: l.limit}
		return 0
	case n < 2:
		return 0
	}
	return float64(n) / (float64(by+f.slop+h.slop) / float64(second))
}

// judge finds out of what kind the limit is: by its kind the reset of a later
// answer follows from that of an earlier one.
func (l *Ledger) judge(v, sent int64, b bounds, h told) {
	now := sample{at: v, reset: h.reset, used: l.limit - h.left, slop: h.slop}
	old := l.sample
	if old.at == 0 || v >= old.reset-old.slop || now.used < 1 || old.used < 1 {
		if now.reset > v && now.used >= 1 {
			l.sample = now
		}
		return
	}
	slop := float64(max(old.slop, now.slop))
	var errors [sliding + 1]float64
	errors[fixed] = math.Abs(float64(now.reset - old.reset))
	errors[sliding] = math.Abs(float64((now.reset - now.at) - (old.reset - old.at)))
	// The larger use tells the rate more exactly.
	few, many := old, now
	if few.used > many.used {
		few, many = many, few
	}
	each := float64(many.reset-many.at) / many.used
	// What is said to be left is rounded, and so by up to a unit on either side off.
	errors[refilling] = max(math.Abs(float64(few.at)+few.used*each-float64(few.reset))-2*each, 0)
	if errors[fixed] <= slop && errors[refilling] >= 2*slop {
		l.steady = min(l.steady+1, 8)
	}
	best, second := fixed, math.Inf(1)
	for k := fixed; k <= sliding; k++ {
		if errors[k] < errors[best] {
			best = k
		}
	}
	for k := fixed; k <= sliding; k++ {
		if k != best {
			second = min(second, errors[k])
		}
	}
	if errors[best] > slop || second < 2*slop {
		return
	}
	l.sample = now
	l.scores[best] = min(l.scores[best]+1, 8)
	rest := int8(0)
	for k := fixed; k <= sliding; k++ {
		if k != best {
			l.scores[k] = max(l.scores[k]-1, 0)
			rest = max(rest, l.scores[k])
		}
	}
	if l.scores[best] < rest+certain || l.kind == best {
		return
	}
	switch best {
	case fixed:
		if l.kind == undecided || l.kind == refilling {
			l.kind, l.rate, l.floor, l.rated = fixed, 0, 0, false
			l.window.reset, l.window.over = h.reset, h.over
		}
	case refilling:
		l.kind, l.rate, l.rated = refilling, 0, false
		l.window.over, l.window.reset = 0, 0
		if l.options.Unit == learn.Requests {
			l.slow = 0
		}
		l.cost.begin() // what came back meanwhile was not seen
		l.level = min(l.level, b.low)
		if l.pace(v, sent, b, h); !l.rated && l.floor > 0 {
			l.rated, l.rate = true, l.floor
		}
	case sliding:
		l.slide(v, h.reset-v)
	}
}

// slide makes it a rolling window.
func (l *Ledger) slide(v, period int64) {
	l.kind, l.spread, l.rated = sliding, true, false
	l.window.period = max(period, 1)
	l.trail.span(l.window.period)
	l.rate = l.limit / (float64(l.window.period) / float64(second))
	l.window.over, l.window.reset = 0, 0
	if l.own > l.flights.unanswered() {
		l.trail.add(v, l.own-l.flights.unanswered())
	}
}

// flow hears of a limit that comes back all the time.
func (l *Ledger) flow(v, sent, own int64, probe bool, b bounds, h told) News {
	// It was written some time between, and says whole units.
	b.high += 1 + 1.1*l.rate*float64(v-sent)/float64(second)
	if probe && l.kind == refilling && b.known {
		l.level = max(l.level, min(b.low, b.high))
	}
	news, _ := l.clamp(v, sent, b)
	l.level = l.cap(l.level)
	if l.kind == sliding {
		news = News{}
		if l.spread && l.limit > 0 && b.known {
			if over := b.low - l.bound(); over >= 1 {
				l.trail.forgive(whole(over / l.cost.each))
			}
		}
		return news
	}
	if !l.rated {
		l.rate = max(l.least, 0)
	}
	return news
}

// ramp is an answer from which on is counted what has come back.
type ramp struct {
	at  int64   // it was written after this
	top float64 // what was taken by then, at most, and what was left
}

// ramps are an older one and a newer one.
type ramps struct{ old, new ramp }

// renewed is after how long there is another ramp.
const renewed = minute

// climb learns the rate of a limit that says nothing of it. What was taken from one
// answer to another, and is left nevertheless, has come back meanwhile. That is the
// least that the rate can be: of what is under way nothing is known, and a bucket
// that is full gets nothing. The longer it is, the less that matters.
func (l *Ledger) climb(v, sent int64, b bounds) {
	if !b.known {
		return
	}
	each := l.cost.each
	if l.options.Unit != learn.Requests {
		each = l.cost.mean
	}
	counted := each * float64(l.flights.taken-b.uncounted-l.void)
	r := &l.ramps
	for _, from := range [...]ramp{r.old, r.new} {
		if from.at > 0 && v-from.at >= second {
			l.least = max(l.least, from.slope(v, b.said+counted))
		}
	}
	now := ramp{at: max(sent, 1), top: b.said + 1 + each*float64(l.flights.taken-l.void)}
	switch {
	case r.old.at == 0:
		r.old = now
	case r.new.at == 0:
		if v-r.old.at >= renewed/4 {
			r.new = now
		}
	case v-r.new.at >= renewed:
		if r.new.slope(v, b.said+counted) >= r.old.slope(v, b.said+counted) {
			r.old = r.new
		}
		r.new = now
	}
}

// slope is what has come back since, a second.
func (r ramp) slope(v int64, top float64) float64 {
	return (top - r.top) / (float64(v-r.at) / float64(second))
}

// grope hears of a limit of which only what is left is said.
func (l *Ledger) grope(v, sent int64, b bounds) News {
	w := &l.window
	news, gained := l.clamp(v, sent, b)
	if gained < 1 {
		return news
	}
	// Something came back: all of it at once, or a part.
	since := v - l.gainedAt
	all := l.limit > 0 && b.high >= l.limit-l.cost.each*(float64(l.flights.unanswered())+2.5)
	switch {
	case all && !w.crept && gained >= l.limit/2 && since > 0 && since <= credible:
		l.ramps, l.least = ramps{}, 0
		w.period, w.said = since, false
		w.over = v + since
		w.opened = v
		l.past()
		l.own, l.foreign = l.flights.unanswered()+1, 0
	case !all && since >= second/10 && l.limit > 0:
		if w.creeps++; w.creeps < 3 {
			return news // the requests before may have cost nothing
		}
		l.kind, l.rate = refilling, max(l.least, 0)
	}
	l.gainedAt = v
	return news
}
