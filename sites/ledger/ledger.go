// Package ledger calculates how much servers allow, from what they announce of their own
// limits. It is pure: now is an argument.
//
// A Ledger is the meter of one announced limit for one budget: a token, or requests
// without one. A HiddenRate is the meter of a limit that only refusals show. A SlowStart
// lets one request go alone while the limits of its route are unknown.
package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

// Options configure a ledger.
type Options struct {
	Reserve    Reserve
	Unit       learn.Unit
	ShortLived bool // the limit belongs to one of many entities, so it is forgotten sooner
}

// Reserve is the part of a limit that is not used: the larger of both values.
type Reserve struct {
	Units   int64
	Percent float64
}

// refillKind names the way in which the units of a limit come back. If you add a kind, also
// change inferKind.
type refillKind uint8

const (
	undecided refillKind = iota // handled as fixed
	fixed                       // all at the reset
	refilling                   // continuously; all are back at the reset
	sliding                     // each when it leaves a rolling window
)

const (
	trustedWindows  = 3  // windows in a row that began whole, after which the next needs no probe
	maxSilentProbes = 3  // probes in a row without an announcement, after which requests go
	maxProbePause   = 60 // seconds between probes, at most

	rateSafety = 0.999 // part of a known rate that is counted on

	manyMissing = 100 // responses without the limit after which it is not announced any more, if it was in each before
	fewMissing  = 10  // more without it between two that announce it make it rare

	unusedTime       = 10 * minute // after which an unused ledger is idle
	entityUnusedTime = 10 * second // the same for the limit of an entity
)

// Ledger is the meter of one announced limit for one budget: it calculates the units that
// may be taken from the units taken and the announcements of responses. It is not safe for
// concurrent use.
type Ledger struct {
	options   Options
	clock     limit.Clock
	allowance allowance
	announced announced
	probe     probe
	refusals  refusals
	sharing   sharing
}

// announced records when and how the server has announced the limit.
type announced struct {
	ever      bool  // the server has announced the limit at some time
	at        int64 // last announcement
	missing   int64 // responses without an announcement since then
	rare      bool  // the server announces the limit in some responses only
	unlimited bool  // the server says that there is no limit
	restored  bool  // the state was restored, and no announcement has arrived since
	shift     int64 // what is added to the server's times for those of the ledger's clock
}

// probe is a single request that goes alone to learn how many units are left.
type probe struct {
	active bool
	from   int64 // when it was started
	sent   int64 // 0: not sent yet
	inRow  int   // probes in a row without an announcement
	tryAt  int64 // when to probe although nothing is left; 0: the reset is known
}

// start lets one request go alone.
func (p *probe) start(v int64) { p.active, p.from, p.sent = true, v, 0 }

// refusals are responses that refused because of this limit.
type refusals struct {
	until int64 // no request goes before
	inRow int
	at    int64 // the last one
}

var _ limit.Meter = (*Ledger)(nil)

// New returns a ledger without announcements: its first request goes alone.
func New(o Options) *Ledger {
	if !(o.Reserve.Percent > 0) {
		o.Reserve.Percent = 0
	}
	o.Reserve.Units = amount(o.Reserve.Units)
	l := &Ledger{options: o, probe: probe{active: true}}
	l.allowance.unit, l.allowance.reserved, l.allowance.backoff = o.Unit, o.Reserve, second
	l.allowance.cost.each, l.allowance.flights.maxInFlight = 1, 1
	return l
}

// free reports whether there is no limit, as far as is known: the server says so, or its
// responses have not announced the limit for long.
func (l *Ledger) free(v int64) bool {
	s, period := &l.announced, l.allowance.window.period
	long := max(2*period, hour)
	if !s.rare && s.missing >= manyMissing {
		long = min(long, max(3*period, minute))
	}
	return s.unlimited || s.ever && s.missing > 0 && v-s.at > long
}

// advance updates the state to a time: refill, end of the window, time of a probe.
func (l *Ledger) advance(v int64) {
	a := &l.allowance
	if v > a.levelAt {
		if a.refillsContinuously() {
			// Requests in flight may not be counted yet, so nothing comes back for them.
			whole := float64(maxAmount)
			if a.limit > 0 {
				whole = a.limit - a.cost.each*float64(a.flights.unanswered())
			}
			a.level = max(a.level, min(a.level+rateSafety*a.refill.rate*float64(v-a.levelAt)/float64(second), whole))
		}
		a.levelAt = v
	}
	if a.recent.on {
		a.recent.expire(v)
	}
	if !l.announced.ever || l.probe.active || v < l.refusals.until {
		return
	}
	if end := a.window.end(); end > 0 && v >= end && a.kind < refilling {
		l.expire(v)
		return
	}
	l.sendLast(v)
	if !a.counts || a.spend() >= a.cost.each {
		l.probe.tryAt = 0
		return
	}
	announced := a.refillsContinuously() || a.kind < refilling && a.window.over > 0 || a.kind == sliding && a.recent.on
	if l.probe.tryAt == 0 && !announced { // when more units are available
		l.probe.tryAt = v + a.backoff
	}
	if l.probe.tryAt > 0 && v >= l.probe.tryAt {
		l.probe.tryAt = 0
		a.backoff = min(2*a.backoff, maxProbePause*second)
		l.probe.start(v)
	}
}

// when returns the result of When without the fleet's budget.
func (l *Ledger) when(now time.Time, n int64) (time.Time, bool) {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	switch {
	case n <= 0:
		return now, true
	case n > maxAmount:
		return now, false
	case l.options.Unit == learn.Requests && a.limit > 0 && !l.free(v) && float64(n) > max(a.limit, 1):
		return now, false
	case v < l.refusals.until:
		return l.clock.Time(now, l.refusals.until), true
	case l.free(v):
		return now, true
	case l.probe.active:
		if l.probe.sent > 0 && v-l.probe.sent < probeTimeout {
			return limit.Unknown, true
		}
		return now, true
	case !l.announced.ever:
		if a.flights.full(n) {
			return limit.Unknown, true
		}
		return now, true
	case l.options.Unit == learn.Concurrent:
		if a.limit > 0 && float64(a.flights.busy+n) > a.limit {
			return limit.Unknown, true
		}
		return now, true
	}
	// A request for more than the limit goes when all units are there.
	need := a.cost.each * float64(n)
	if a.limit > 0 {
		need = min(need, a.limit-a.reserve())
	}
	if spend := a.spend(); spend < need {
		return l.clock.Time(now, l.enough(v, need)), true
	}
	if a.flights.full(n) {
		return limit.Unknown, true
	}
	if l.isLast(now, n, need) {
		if until := l.holdsLast(v); until > 0 {
			return l.clock.Time(now, until), true
		}
	}
	return now, true
}

// Patience returns when another request may go though the probe has no response yet.
func (l *Ledger) Patience(now time.Time) time.Time {
	v := l.clock.At(now)
	if !l.probe.active || l.probe.sent == 0 {
		return time.Time{}
	}
	return l.clock.Time(now, max(l.probe.sent+probeTimeout, v))
}

// enough returns when the needed units are available.
func (l *Ledger) enough(v int64, need float64) int64 {
	a := &l.allowance
	at := int64(0)
	switch {
	case a.kind < refilling:
		at = a.window.end()
	default:
		reserve := a.reserve()
		if a.refillsContinuously() {
			at = plus(v, (need+reserve-a.level)/(rateSafety*a.refill.rate))
		}
		if a.kind == sliding && a.recent.on && a.limit > 0 {
			left := (a.limit-need-reserve)/a.cost.each - float64(a.flights.unanswered())
			at = max(at, a.recent.free(v, max(whole(left), 0)))
		}
	}
	if l.probe.tryAt > 0 && (at <= v || l.probe.tryAt < at) {
		at = l.probe.tryAt
	}
	if at <= v {
		at = v + a.backoff
	}
	return at
}

func (l *Ledger) Take(now time.Time, n int64) {
	v := l.clock.At(now)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	if l.share(now, v) {
		l.sharing.budget.Take(now, n)
	}
	l.allowance.flights.take(v, n)
	l.allowance.pay(n)
	if l.probe.active {
		if h := &l.allowance.phase.hold; h.sent > 0 && h.sent == l.probe.from {
			h.sent = v
		}
		l.probe.sent = v
	}
}

func (l *Ledger) Give(now, taken time.Time, n int64) {
	a := &l.allowance
	v, at := l.clock.At(now), l.clock.On(taken)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	a.flights.give(at, n)
	if s := &l.sharing; s.number != 0 && at >= s.since {
		s.budget.Give(now, taken, n)
	}
	// An announcement since then may have been lower by these units.
	if at >= l.announced.at || !l.announced.ever {
		a.pay(-n)
		a.level = a.cap(a.level)
	} else {
		a.unexplained += float64(n)
	}
	if at == l.probe.sent {
		l.probe.sent = 0
	}
}

func (l *Ledger) Postpone(now, taken time.Time, n int64) {
	v, at := l.clock.At(now), l.clock.On(taken)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	l.allowance.flights.move(at, v, n)
	if l.probe.sent > 0 && at == l.probe.sent {
		l.probe.sent = v
	}
}

func (l *Ledger) Settle(now, taken time.Time, estimate, actual int64) {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	by := a.flights.settle(l.clock.On(taken), amount(estimate), amount(actual))
	if by != 0 {
		a.pay(by)
	}
	if by < 0 {
		a.level = a.cap(a.level)
	}
}

func (l *Ledger) Done(now, taken time.Time, n int64, o limit.Outcome) {
	a := &l.allowance
	v, at := l.clock.At(now), l.clock.On(taken)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	late := a.flights.done(v, at, n)
	if late == 0 {
		return
	}
	a.finished(v, late)
	switch o {
	case limit.Success, limit.Refused:
		l.unannounced(v, at, late)
	case limit.Failed, limit.Abandoned:
		a.unexplained += float64(late)
		a.uncounted += late
		a.cost.decreases.interrupt()
		if at == l.probe.sent {
			l.probe.sent = 0
		}
	}
}

// finished counts n units whose requests have a response, whatever the response says.
func (a *allowance) finished(v, n int64) {
	if a.recent.on {
		a.recent.add(v, n)
	}
	if a.flights.maxInFlight > 0 {
		if a.unit != learn.Requests {
			n *= 3 // the cost is soon known, and restrains more exactly
		}
		if a.flights.maxInFlight += n; a.flights.maxInFlight > 1<<12 || a.limit > 0 && float64(a.flights.maxInFlight) >= a.limit {
			a.flights.maxInFlight = 0
		}
	}
}

// unannounced counts n units whose response did not announce the limit.
func (l *Ledger) unannounced(v, sent, n int64) {
	a := &l.allowance
	l.announced.missing = min(l.announced.missing+n, maxAmount)
	a.cost.decreases.interrupt()
	a.unexplained += float64(n)
	a.uncounted += n
	if !l.probe.active || sent < l.probe.from {
		return
	}
	l.probe.sent = 0
	if l.probe.inRow++; l.probe.inRow < maxSilentProbes {
		return
	}
	l.probe.inRow, l.probe.active = 0, false
	if l.announced.ever && a.limit > 0 {
		a.beginWindow(v)
	}
}

func (l *Ledger) Left(now time.Time) int64 {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	switch {
	case v < l.refusals.until:
		return 0
	case l.free(v):
		return maxAmount
	case l.probe.active:
		if l.probe.sent > 0 && v-l.probe.sent < probeTimeout {
			return 0
		}
		return 1
	case !l.announced.ever:
		if a.flights.maxInFlight > 0 {
			return max(a.flights.maxInFlight-a.flights.unanswered(), 0)
		}
		return maxAmount
	case l.options.Unit == learn.Concurrent:
		if a.limit > 0 {
			return max(whole(a.limit)-a.flights.busy, 0)
		}
		return maxAmount
	}
	left := max(whole(min(a.spend(), float64(maxAmount))/a.cost.each), 0)
	if f := a.flights.unanswered(); a.flights.maxInFlight > 0 {
		left = min(left, max(a.flights.maxInFlight-f, 0))
	}
	return left
}

func (l *Ledger) Idle(now time.Time) bool {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	if a.flights.busy > 0 || v < l.refusals.until {
		return false
	}
	switch {
	case !l.announced.ever:
		return l.probe.active
	case v-l.announced.at < entityUnusedTime, !l.options.ShortLived && v-l.announced.at < unusedTime:
		return false // keep what was learned
	case l.free(v) || l.probe.active:
		return true
	case a.kind < refilling:
		return a.limit > 0 && a.usage.own == 0 && a.level >= a.limit
	}
	return a.limit > 0 && a.level >= a.limit && (!a.recent.on || a.recent.sum == 0)
}

// Ahead implements queue.Learning. Each window of the copy begins with all units, at the end of the
// one before.
func (l *Ledger) Ahead(now time.Time) limit.Meter {
	c := *l
	v := c.clock.At(now)
	c.sharing, c.allowance.shared, c.probe, c.announced.at = sharing{}, false, probe{}, v+maxAhead
	a := &c.allowance
	a.flights, a.cost.decreases, a.window.wholeInRow = flights{}, decreases{}, trustedWindows
	a.window.continueByLength()
	return &c
}

// Spare reports whether the next announcement would restore all that is lost with the
// ledger. A new ledger sends a probe, so at least one unit must be left. Counts that only
// the ledger has are not spare.
func (l *Ledger) Spare(now time.Time) bool {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	switch {
	case a.flights.busy > 0 || v < l.refusals.until:
		return false
	case !l.announced.ever:
		return true
	case v-l.announced.at < entityUnusedTime:
		return false
	case l.free(v) || l.probe.active || l.options.Unit == learn.Concurrent:
		return true
	}
	if a.spend() < a.cost.each {
		return false
	}
	said := a.counts && l.announced.missing == 0
	return said || a.limit <= 0 || a.level >= a.limit && (!a.recent.on || a.recent.sum == 0) ||
		v-l.announced.at > max(2*a.window.period, hour)
}

// Blank implements queue.Storable.
func (l *Ledger) Blank() bool { return false }

// SpareAt returns when the ledger is spare at the latest, if it is not used before: at the
// end of its window, or when its announcements have expired.
func (l *Ledger) SpareAt(now time.Time) time.Time {
	v := l.clock.At(now)
	at := max(l.refusals.until, l.allowance.window.end(), l.announced.at+max(2*l.allowance.window.period, hour))
	return l.clock.Time(now, min(at, v+maxAhead))
}
