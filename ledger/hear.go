package ledger

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// told is what an answer said, without what cannot be.
type told struct {
	limit, left float64 // -1: not said
	reset       int64   // nominal; 0: not said
	over        int64   // by then it is surely so
	slop        int64   // by how much the resets of one window can differ
	period      int64   // 0: not said
	rate        float64
	next        int64
	exact       bool // the server said how long
}

// skewed is how far a time by another clock may be off after its correction.
const skewed = 2 * second

// hear reads what was said, by a request that was under way for a while.
func (l *Ledger) hear(v, rtt int64, s *learn.Limit) (h told, said bool) {
	h.limit, h.left = number(s.Limit.N, s.Limit.Known), number(s.Remaining.N, s.Remaining.Known)
	used := number(s.Used.N, s.Used.Known)
	if l.options.Unit == learn.Percent && h.limit < 0 {
		if used >= 0 || h.left >= 0 {
			h.limit = 100
		}
	}
	if h.left < 0 && used >= 0 && h.limit > 0 {
		h.left = max(h.limit-used, 0)
	}
	if h.limit > 0 && h.left > h.limit {
		h.left = h.limit
	}
	if s.Rate > 0 && s.Rate < float64(most) {
		h.rate = s.Rate
	}
	if p := int64(s.Window); p > 0 && p <= credible {
		h.period = p
	}
	h.exact = s.Relative
	if !s.Reset.IsZero() {
		if r := l.clock.on(s.Reset); r > 0 && r-v <= credible {
			step := min(max(int64(s.Resolution), 0), hour)
			r = max(r, v-hour)
			h.reset, h.over = r, r+step
			h.slop = step + min(max(rtt, 0), minute) + 20*int64(time.Millisecond)
			if !s.Relative {
				h.over += skewed
				h.slop += skewed + second
			}
		}
	}
	if h.period > 0 && h.reset > 0 && 2*(h.slop-rtt) >= h.period && l.kind < refilling {
		h.reset, h.over = 0, 0 // its end is said too coarsely to tell one window from the next
	}
	if !s.Next.IsZero() {
		if at := l.clock.on(s.Next); at > v && at-v <= credible {
			h.next = at
		}
	}
	return h, h.limit >= 0 || h.left >= 0 || h.reset > 0 || h.rate > 0
}

// Hear hears what an answer said, when its headers are there.
func (l *Ledger) Hear(now time.Time, a Answer) News {
	v, sent := l.clock.at(now), l.clock.on(a.Sent)
	sent = min(sent, v)
	l.trip = v - sent
	l.look(v)
	n := amount(a.N)
	own := l.flights.answer(v, sent, n)
	l.landed(v, own)
	h, said := l.hear(v, v-sent, &a.Said)
	if !said && !a.Refused {
		l.mute(v, sent, own)
		return News{}
	}
	if said {
		l.heardAt, l.missing, l.silent = v, 0, 0
		if l.off = h.limit == 0 && !a.Refused; l.off {
			l.start(v)
			l.probing = false
			return News{}
		}
	}
	if n == 0 && l.heard && !a.Refused && l.kind < refilling && l.place(h) == same {
		l.pay(1) // nobody had expected that it takes anything
	}
	var news News
	if a.Refused {
		l.refuse(v, sent, own, &a, h)
	} else {
		news = l.served(v, sent, own, h)
	}
	l.level = min(max(l.level, -float64(most)), float64(most))
	l.rate = min(l.rate, float64(most))
	return news
}

// start is for the first that is heard.
func (l *Ledger) start(v int64) {
	if !l.heard {
		l.heard, l.at, l.gainedAt, l.window.opened = true, v, v, v
	}
}

// served is for an answer that is no refusal.
func (l *Ledger) served(v, sent, own int64, h told) News {
	first := !l.heard
	if sent >= l.refusedAt {
		l.row = 0
	}
	l.resize(h)
	l.start(v)
	b := l.bounds(sent, own, h)
	if l.options.Unit == learn.Concurrent {
		l.probing = l.probing && sent < l.probeFrom
		return News{}
	}
	if l.away {
		l.away = false
		if b.known && l.level > b.high {
			l.level = b.high // nobody else has used it: we have, when nobody wrote it down
		}
	}
	l.learn(v, sent, first, &b, h)
	if first {
		return l.begin(v, b, h)
	}
	probe := l.probing && sent >= l.probeFrom
	if probe {
		l.probing, l.probeAt = false, 0
	}
	defer l.dry(v, h)
	if l.kind >= refilling {
		return l.flow(v, sent, own, probe, b, h)
	}
	if h.reset == 0 && l.window.period == 0 {
		return l.grope(v, sent, b)
	}
	return l.fixed(v, sent, own, probe, b, h)
}

// dry remembers what was said of the next unit, where nothing is left.
func (l *Ledger) dry(v int64, h told) {
	if l.spend() >= l.cost.each {
		l.wait = second
		return
	}
	if l.kind == refilling && l.rate == 0 && h.over > v {
		l.tryAt = h.over // it is full
	}
	if h.next > 0 && h.left >= 0 && h.left < l.cost.each {
		l.tryAt = max(h.next, v+second/100)
	}
}

// resize takes over another limit, and how its window was said to be.
func (l *Ledger) resize(h told) {
	size := h.limit
	if size <= 0 && h.left >= 0 && l.limit < h.left+1 && (l.limit == 0 || l.window.guess) {
		size, l.window.guess = min(h.left+1, float64(most)), true // there was one more before this one
	}
	if size > 0 && size != l.limit {
		if l.limit > 0 {
			l.level = min(l.level+size-l.limit, size)
		} else {
			l.level = max(size-l.cost.each*float64(l.flights.unanswered()), -float64(most))
		}
		l.limit = size
		l.cost.reset()
	}
	if h.period > 0 {
		l.window.period, l.window.said = h.period, true
		if l.spread {
			l.trail.span(h.period)
		}
	}
	if h.left >= 0 {
		l.counts = true
	}
	if h.rate > 0 && h.reset == 0 {
		l.rate, l.rated, l.kind = h.rate, true, refilling
	}
}

// bounds are the least and the most that the level can be, by one answer.
type bounds struct {
	low, high float64
	said      float64
	uncounted int64 // units that it may not have counted
	before    int64 // units that were taken before its own, and those
	known     bool
}

func (l *Ledger) bounds(sent, own int64, h told) bounds {
	b := bounds{low: math.Inf(-1), high: math.Inf(1), uncounted: l.flights.uncounted(sent, own)}
	b.before = l.flights.before(sent)
	if h.left >= 0 {
		b.said, b.high, b.known = h.left, h.left, true
		b.low = max(h.left-l.cost.each*float64(b.uncounted), -float64(most))
	}
	return b
}

// begin takes over the first that is heard.
func (l *Ledger) begin(v int64, b bounds, h told) News {
	l.probing, l.probeAt = false, 0
	if b.known {
		l.level = b.low
	} else {
		l.level = max(l.limit-l.cost.each*float64(l.flights.unanswered()+1), -float64(most))
	}
	if !b.known && h.reset == 0 && h.period > 0 && h.limit > 0 && l.kind < refilling {
		l.slide(v, h.period)
		return News{}
	}
	l.open(v, h)
	if b.known {
		l.cost.sample(v, l.counted(b), h.left, b.uncounted, 0)
	}
	l.dry(v, h)
	return News{}
}

// clamp brings the level between the bounds.
func (l *Ledger) clamp(v, sent int64, b bounds) (news News, gained float64) {
	if !b.known {
		return News{}, 0
	}
	// Within a window less is left later, so this was written before another that
	// has been heard, unless it was sent after that.
	w := &l.window
	stale := l.kind < refilling && w.leastAt > 0 && b.high > w.least && sent < w.leastAt
	if !stale {
		w.least, w.leastAt = b.high, v
	}
	was := l.level
	if was > b.high {
		l.level = b.high
		if l.doubtful() {
			l.level = b.low
		}
		l.used(v, was-b.high, &news)
	}
	if was < b.low && !stale {
		l.level = b.low
		gained = b.low - was
		if l.slack > 0 {
			by := min(l.slack, gained)
			l.slack -= by
			gained -= by
		}
	}
	return news, gained
}

// doubtful tells whether what looks like another's use may be a limit that is not
// whole again at its reset. Then no more is left than is sure.
func (l *Ledger) doubtful() bool { return l.kind == undecided && l.window.passed && l.window.reset > 0 }

// used notes what somebody else has used.
func (l *Ledger) used(v int64, n float64, news *News) {
	if l.sharing.number != 0 || l.options.Unit != learn.Requests || l.cost.each != 1 || n < 1 || l.window.guess {
		return
	}
	switch w := &l.window; {
	case l.kind == fixed || l.kind == refilling && l.rated:
	case l.kind == undecided && !w.passed:
	case l.kind == undecided && w.reset == 0 && w.fulls >= trusted && w.period > 10*second:
	default:
		return // it may be another kind of limit
	}
	news.Foreign = whole(math.Floor(n))
	l.foreign = min(l.foreign+news.Foreign, most)
	l.foreignAt = max(v, 1)
}

// refuse is for an answer that says no.
func (l *Ledger) refuse(v, sent, own int64, a *Answer, h told) {
	l.void += own
	l.resize(h)
	l.start(v)
	late := l.refusedAt > 0 && sent < l.refusedAt // it went before another was refused
	old := sent < l.window.opened && (h.reset == 0 || l.place(h) == older)
	var at int64
	if !a.RetryAt.IsZero() {
		at = l.clock.on(a.RetryAt)
		if at-v > credible {
			at = v + incredible
		}
		at = max(at, v+second)
	}
	if old && at <= v+second {
		return // it was refused in a window that is over
	}
	if h.reset > 0 && !old && l.kind < refilling {
		if l.place(h) != older {
			l.window.adopt(v, h)
		}
		if at == 0 && h.over > v {
			at = max(h.over+l.window.extra, v+second)
		}
	}
	if at == 0 && l.kind == refilling && h.next > 0 {
		at = max(h.next, v+second)
	}
	if !late || at == 0 && l.until <= v {
		l.surprise(v, sent)
		l.row = min(l.row+1, 16)
		l.refusedAt = v
	}
	if at == 0 {
		at = v + min(second<<max(l.row-1, 0), patient*second)
	}
	l.until = max(l.until, at)
	l.level = min(l.level, 0)
	l.window.least, l.window.leastAt = 0, v
	l.from = start{}
	if !l.probing || sent >= l.probeFrom {
		l.probe(v)
	}
	l.tryAt = 0
}

// surprise is for a refusal where the ledger saw something left.
func (l *Ledger) surprise(v, sent int64) {
	if l.sharing.number != 0 && l.sharedFor(v, 1) {
		l.foreignAt = max(v, 1) // the fleet's budget had some left
	}
	if l.kind < refilling && l.window.fulls >= trusted && sent-l.window.opened < 5*second {
		l.window.delay()
	}
	l.window.fulls = 0
	if l.kind >= refilling && !l.rated {
		l.rate *= 0.9
		l.least, l.ramps = l.rate, ramps{}
	}
}
