package ledger

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/limit"
)

// Options are what the operator wants of a ledger.
type Options struct {
	Reserve Reserve
	Unit    learn.Unit
	Part    bool // there are as many as there are parts, so it is forgotten sooner
}

// Reserve is what stays unspent of a limit: the larger of the two.
type Reserve struct {
	Units   int64
	Percent float64
}

// kind is how a limit becomes whole again.
type kind uint8

const (
	undecided kind = iota // taken for fixed
	fixed                 // at once, at the reset
	refilling             // all the time; the reset is when it is full
	sliding               // as what was taken leaves a window
)

var kinds = [...]string{undecided: "unknown", fixed: "fixed", refilling: "refilling", sliding: "sliding"}

const (
	trusted = 3  // full refills right after a reset, and the next needs no probe
	silence = 3  // probes whose answers say nothing, and it is open
	patient = 60 // seconds between probes, at most

	cautious = 0.999 // of a rate that is known

	remembered = 10 * minute // for which a ledger is kept that nobody asks for
	partly     = 10 * second // the same of a part's
)

// Ledger is one limit of a server's, for one budget. It counts what is taken, and
// hears what answers say is left.
//
// Level is what may still be taken after everything that has been. What an answer
// says was true when the server wrote it: of what was taken by now it may count
// all or only what had been answered when its request was sent. So it is a lower
// and an upper bound of the level, which stays where it is in between. What is in
// flight never lowers it, then; what somebody else has taken does.
type Ledger struct {
	options Options
	clock   clock
	flights flights
	kind    kind
	heard   bool // something was said of it
	off     bool // the server says that it does not limit
	counts  bool // what is left is said

	limit  float64 // 0: not known
	level  float64
	at     int64 // of level
	rate   float64
	floor  float64 // the rate is no less, if it comes back all the time
	least  float64 // nor less than this, if nothing is said of it
	ramps  ramps   // by which that is known
	void   int64   // units that were answered and that the server may not have counted
	fullAt int64   // the latest time that was said for when it is full
	rated  bool    // the server said the rate, or it follows from its resets
	cost   cost
	spread bool // trail has a window

	window window
	scores [sliding + 1]int8
	sample sample
	steady int8 // times that the reset stayed where it was, though more was used
	from   start

	until     int64 // after a refusal nothing goes before
	row       int   // refusals, one after the other
	refusedAt int64

	away      bool  // it was restored, and nothing was heard since
	probing   bool  // one goes alone
	probeFrom int64 // since when
	probeAt   int64 // when it went; 0: it has not
	silent    int   // probes that were answered without a word
	slow      int64 // how many may be in flight; 0: as many as there are
	tryAt     int64 // when to probe though nothing is left; 0: there is a better time
	wait      int64 // until the next such probe

	trip    int64 // how long the answer took that is heard
	heardAt int64 // when something was said last
	missing int64 // answers since then

	own, foreign int64 // units that were used in this window
	// The same in those before, the less the longer ago.
	ownBefore, foreignBefore int64

	foreignAt int64 // when foreign use was seen last; 0: never
	gainedAt  int64 // when more was left than there had been
	slack     float64

	trail   trail
	sharing sharing
}

var _ limit.Meter = (*Ledger)(nil)

// New is a ledger that has heard nothing: one request goes alone.
func New(o Options) *Ledger {
	if !(o.Reserve.Percent > 0) {
		o.Reserve.Percent = 0
	}
	o.Reserve.Units = amount(o.Reserve.Units)
	return &Ledger{options: o, cost: cost{each: 1}, probing: true, slow: 1, wait: second}
}

// flows tells whether the level rises all the time.
func (l *Ledger) flows() bool { return l.rate > 0 && l.kind >= refilling }

// look brings the level up to a time.
func (l *Ledger) look(v int64) {
	if v > l.at {
		if l.flows() {
			// What is under way may be counted only now, so nothing comes back for it yet.
			whole := float64(most)
			if l.limit > 0 {
				whole = l.limit - l.cost.each*float64(l.flights.unanswered())
			}
			l.level = max(l.level, min(l.level+cautious*l.rate*float64(v-l.at)/float64(second), whole))
		}
		l.at = v
	}
	if l.spread {
		l.trail.fade(v)
	}
	if !l.heard || l.probing || v < l.until {
		return
	}
	if end := l.window.end(); end > 0 && v >= end && l.kind < refilling {
		l.expire(v)
		return
	}
	if !l.counts || l.spend() >= l.cost.each {
		l.tryAt = 0
		return
	}
	if l.tryAt == 0 && !l.known() {
		l.tryAt = v + l.wait
		if l.kind == undecided && l.least > 0 {
			// Some has come back before, so it is likely to do so again.
			l.tryAt = max(l.tryAt, min(plus(v, (l.cost.each-l.spend())/l.least), v+patient*second))
		}
	}
	if l.tryAt > 0 && v >= l.tryAt {
		l.tryAt = 0
		l.wait = min(2*l.wait, patient*second)
		l.probe(v)
	}
}

// known tells whether it follows from what was said when there is more.
func (l *Ledger) known() bool {
	return l.flows() || l.kind < refilling && l.window.over > 0 || l.kind == sliding && l.spread
}

func (l *Ledger) cap(level float64) float64 {
	if l.limit > 0 {
		return min(level, l.limit)
	}
	return min(level, float64(most))
}

// probe lets one go alone.
func (l *Ledger) probe(v int64) { l.probing, l.probeFrom, l.probeAt = true, v, 0 }

// spend is what may be spent now.
func (l *Ledger) spend() float64 {
	level := math.Inf(1)
	if l.counts || l.limit > 0 && (l.kind < refilling && l.window.over > 0 || l.flows()) {
		level = l.level
	}
	if l.kind == sliding && l.spread && l.limit > 0 {
		level = min(level, l.bound())
	}
	return level - l.reserve()
}

// bound is what a rolling window leaves, if we are alone.
func (l *Ledger) bound() float64 {
	return l.limit - l.cost.each*float64(l.flights.unanswered()+l.trail.sum)
}

func (l *Ledger) reserve() float64 {
	keep := max(float64(l.options.Reserve.Units), l.limit*min(l.options.Reserve.Percent, 100)/100)
	if l.guarded() {
		if least := 2.0; l.limit >= 20 {
			keep = max(keep, least, l.limit/100)
		} else {
			keep = max(keep, 1)
		}
	}
	if l.limit > 0 {
		keep = max(min(keep, l.limit-l.cost.each), 0)
	}
	return keep
}

// guarded tells whether somebody else has used something a while ago.
func (l *Ledger) guarded() bool {
	return l.foreignAt > 0 && l.at-l.foreignAt < max(3*l.window.period, minute)
}

// stale tells whether the server has ceased to speak of the limit.
func (l *Ledger) stale(v int64) bool {
	return l.missing > 0 && v-l.heardAt > max(2*l.window.period, hour)
}

func (l *Ledger) free(v int64) bool { return l.off || l.heard && l.stale(v) }

// when is When, as far as the ledger knows by itself.
func (l *Ledger) when(now time.Time, n int64) (time.Time, bool) {
	v := l.clock.at(now)
	l.look(v)
	switch {
	case n <= 0:
		return now, true
	case n > most:
		return now, false
	case l.options.Unit == learn.Requests && l.limit > 0 && !l.free(v) && float64(n) > max(l.limit, 1):
		return now, false
	case v < l.until:
		return l.clock.time(now, l.until), true
	case l.free(v):
		return now, true
	case l.probing:
		if l.probeAt > 0 && v-l.probeAt < patience {
			return limit.Unknown, true
		}
		return now, true
	case !l.heard:
		if f := l.flights.unanswered(); l.slow > 0 && f > 0 && f+n > l.slow {
			return limit.Unknown, true
		}
		return now, true
	case l.options.Unit == learn.Concurrent:
		if l.limit > 0 && float64(l.flights.busy+n) > l.limit {
			return limit.Unknown, true
		}
		return now, true
	}
	// More than the whole goes when it is whole.
	need := l.cost.each * float64(n)
	if l.limit > 0 {
		need = min(need, l.limit-l.reserve())
	}
	if spend := l.spend(); spend < need {
		return l.clock.time(now, l.enough(v, need)), true
	}
	if f := l.flights.unanswered(); l.slow > 0 && f > 0 && f+n > l.slow {
		return limit.Unknown, true
	}
	return now, true
}

// Patience is queue.Impatient's: when another may go though a probe is not answered.
func (l *Ledger) Patience(now time.Time) time.Time {
	v := l.clock.at(now)
	if !l.probing || l.probeAt == 0 {
		return time.Time{}
	}
	return l.clock.time(now, max(l.probeAt+patience, v))
}

// enough is when so much is there, which is not the case now.
func (l *Ledger) enough(v int64, need float64) int64 {
	at := int64(0)
	switch {
	case l.kind < refilling:
		at = l.window.end()
	default:
		keep := l.reserve()
		if l.flows() {
			at = plus(v, (need+keep-l.level)/(cautious*l.rate))
		}
		if l.kind == sliding && l.spread && l.limit > 0 {
			left := (l.limit-need-keep)/l.cost.each - float64(l.flights.unanswered())
			at = max(at, l.trail.free(v, max(whole(left), 0)))
		}
	}
	if l.tryAt > 0 && (at <= v || l.tryAt < at) {
		at = l.tryAt
	}
	if at <= v {
		at = v + l.wait
	}
	return at
}

// Take is limit.Meter's.
func (l *Ledger) Take(now time.Time, n int64) {
	v := l.clock.at(now)
	l.look(v)
	if n = amount(n); n == 0 {
		return
	}
	if l.share(now, v) {
		l.sharing.budget.Take(now, n)
	}
	l.flights.take(v, n)
	l.pay(n)
	if l.probing {
		l.probeAt = v
	}
}

func (l *Ledger) pay(n int64) {
	l.level = min(max(l.level-l.cost.each*float64(n), -float64(most)), float64(most))
	l.own = min(max(l.own+n, 0), most)
}

// Give is limit.Meter's.
func (l *Ledger) Give(now, taken time.Time, n int64) {
	v, at := l.clock.at(now), l.clock.on(taken)
	l.look(v)
	if n = amount(n); n == 0 {
		return
	}
	l.flights.give(at, n)
	if s := &l.sharing; s.number != 0 && at >= s.since {
		s.budget.Give(now, taken, n)
	}
	// What was heard since may have been less than there was with it.
	if at >= l.heardAt || !l.heard {
		l.pay(-n)
		l.level = l.cap(l.level)
	} else {
		l.slack += float64(n)
	}
	if at == l.probeAt {
		l.probeAt = 0
	}
}

// Postpone is limit.Meter's.
func (l *Ledger) Postpone(now, taken time.Time, n int64) {
	v, at := l.clock.at(now), l.clock.on(taken)
	l.look(v)
	if n = amount(n); n == 0 {
		return
	}
	l.flights.move(at, v, n)
	if l.probeAt > 0 && at == l.probeAt {
		l.probeAt = v
	}
}

// Settle is limit.Meter's.
func (l *Ledger) Settle(now, taken time.Time, estimate, actual int64) {
	v := l.clock.at(now)
	l.look(v)
	by := l.flights.settle(l.clock.on(taken), amount(estimate), amount(actual))
	if by != 0 {
		l.pay(by)
	}
	if by < 0 {
		l.level = l.cap(l.level)
	}
}

// Done is limit.Meter's.
func (l *Ledger) Done(now, taken time.Time, n int64, o limit.Outcome) {
	v, at := l.clock.at(now), l.clock.on(taken)
	l.look(v)
	if n = amount(n); n == 0 {
		return
	}
	late := l.flights.done(v, at, n)
	if o == limit.Refused && late < n {
		// Another limit has refused it, so that this one may not have counted it.
		l.void += n - late
		l.from = start{}
	}
	if late == 0 {
		return
	}
	l.landed(v, late)
	switch o {
	case limit.Success, limit.Refused:
		l.mute(v, at, late)
	case limit.Failed, limit.Abandoned:
		l.slack += float64(late)
		l.void += late
		l.from = start{}
		if at == l.probeAt {
			l.probeAt = 0
		}
	}
}

// landed is for n that are answered, whatever the answer says.
func (l *Ledger) landed(v, n int64) {
	if l.spread {
		l.trail.add(v, n)
	}
	if l.slow > 0 {
		if l.options.Unit != learn.Requests {
			n *= 3 // what it costs is soon known, and then that is what counts
		}
		if l.slow += n; l.slow > 1<<12 || l.limit > 0 && float64(l.slow) >= l.limit {
			l.slow = 0
		}
	}
}

// mute is for an answer without a word on the limit.
func (l *Ledger) mute(v, sent, n int64) {
	l.missing = min(l.missing+n, most)
	l.slack += float64(n)
	l.void += n
	l.from = start{}
	if !l.probing || sent < l.probeFrom {
		return
	}
	l.probeAt = 0
	if l.silent++; l.silent < silence {
		return
	}
	l.silent, l.probing = 0, false
	if l.heard && l.limit > 0 {
		l.roll(v)
	}
}

// Left is limit.Meter's.
func (l *Ledger) Left(now time.Time) int64 {
	v := l.clock.at(now)
	l.look(v)
	switch {
	case v < l.until:
		return 0
	case l.free(v):
		return most
	case l.probing:
		if l.probeAt > 0 && v-l.probeAt < patience {
			return 0
		}
		return 1
	case !l.heard:
		if l.slow > 0 {
			return max(l.slow-l.flights.unanswered(), 0)
		}
		return most
	case l.options.Unit == learn.Concurrent:
		if l.limit > 0 {
			return max(whole(l.limit)-l.flights.busy, 0)
		}
		return most
	}
	left := max(whole(min(l.spend(), float64(most))/l.cost.each), 0)
	if f := l.flights.unanswered(); l.slow > 0 {
		left = min(left, max(l.slow-f, 0))
	}
	return left
}

// Idle is limit.Meter's.
func (l *Ledger) Idle(now time.Time) bool {
	v := l.clock.at(now)
	l.look(v)
	if l.flights.busy > 0 || v < l.until {
		return false
	}
	switch {
	case !l.heard:
		return l.probing
	case v-l.heardAt < partly, !l.options.Part && v-l.heardAt < remembered:
		return false // what was learned of it is worth more than its place
	case l.free(v) || l.probing:
		return true
	case l.kind < refilling:
		return l.limit > 0 && l.own == 0 && l.level >= l.limit
	}
	return l.limit > 0 && l.level >= l.limit && (!l.spread || l.trail.sum == 0)
}
