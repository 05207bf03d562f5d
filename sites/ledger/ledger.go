// Package ledger calculates how much servers allow, from what they announce of their own
// limits. It is pure: now is an argument.
//
// A Ledger is the meter of one announced limit for one budget: a token, or requests
// without one. A HiddenRate is the meter of a limit that only refusals show. An UnknownRoute
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

// refillKind is how the units of a limit come back. If you add a kind, also change kinds
// and inferKind.
type refillKind uint8

const (
	undecided refillKind = iota // handled as fixed
	fixed                       // all at the reset
	refilling                   // continuously; the reset is when all are back
	sliding                     // each when it leaves a rolling window
)

const (
	trustedWindows  = 3  // windows in a row that began whole, after which the next needs no probe
	maxSilentProbes = 3  // probes in a row without an announcement, after which requests go
	maxProbePause   = 60 // seconds between probes, at most

	rateSafety = 0.999 // part of a known rate that is counted on

	unusedKept       = 10 * minute // for which an unused ledger is kept
	entityUnusedKept = 10 * second // the same for the limit of an entity
)

// Ledger is the meter of one announced limit for one budget: it calculates the units that
// may be taken from the units taken and the announcements of responses. It is not safe for
// concurrent use.
type Ledger struct {
	options Options
	clock   limit.Clock
	allowance
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
	unlimited bool  // the server says that there is no limit
	restored  bool  // the state was restored, and no announcement has arrived since
	shift     int64 // what is added to the server's times for those of the ledger's clock
}

// stale reports whether responses have not announced the limit for long.
func (a *announced) stale(v, period int64) bool { return a.missing > 0 && v-a.at > max(2*period, hour) }

// free reports whether there is no limit, as far as it is known.
func (a *announced) free(v, period int64) bool { return a.unlimited || a.ever && a.stale(v, period) }

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
	l.unit, l.reserved, l.backoff = o.Unit, o.Reserve, second
	l.cost.each, l.flights.maxInFlight = 1, 1
	return l
}

// advance updates the state to a time: refill, end of the window, time of a probe.
func (l *Ledger) advance(v int64) {
	if v > l.levelAt {
		if l.refillsContinuously() {
			// Requests in flight may not be counted yet, so nothing comes back for them.
			whole := float64(maxAmount)
			if l.limit > 0 {
				whole = l.limit - l.cost.each*float64(l.flights.unanswered())
			}
			l.level = max(l.level, min(l.level+rateSafety*l.refill.rate*float64(v-l.levelAt)/float64(second), whole))
		}
		l.levelAt = v
	}
	if l.recent.on {
		l.recent.expire(v)
	}
	if !l.announced.ever || l.probe.active || v < l.refusals.until {
		return
	}
	if end := l.window.end(); end > 0 && v >= end && l.kind < refilling {
		l.expire(v)
		return
	}
	l.sendLast(v)
	if !l.counts || l.spend() >= l.cost.each {
		l.probe.tryAt = 0
		return
	}
	if l.probe.tryAt == 0 && !l.announcesReturn() {
		l.probe.tryAt = v + l.backoff
	}
	if l.probe.tryAt > 0 && v >= l.probe.tryAt {
		l.probe.tryAt = 0
		l.backoff = min(2*l.backoff, maxProbePause*second)
		l.probe.start(v)
	}
}

// when is When without the fleet's budget.
func (l *Ledger) when(now time.Time, n int64) (time.Time, bool) {
	v := l.clock.At(now)
	l.advance(v)
	switch {
	case n <= 0:
		return now, true
	case n > maxAmount:
		return now, false
	case l.options.Unit == learn.Requests && l.limit > 0 && !l.announced.free(v, l.window.period) && float64(n) > max(l.limit, 1):
		return now, false
	case v < l.refusals.until:
		return l.clock.Time(now, l.refusals.until), true
	case l.announced.free(v, l.window.period):
		return now, true
	case l.probe.active:
		if l.probe.sent > 0 && v-l.probe.sent < probeTimeout {
			return limit.Unknown, true
		}
		return now, true
	case !l.announced.ever:
		if f := l.flights.unanswered(); l.flights.maxInFlight > 0 && f > 0 && f+n > l.flights.maxInFlight {
			return limit.Unknown, true
		}
		return now, true
	case l.options.Unit == learn.Concurrent:
		if l.limit > 0 && float64(l.flights.busy+n) > l.limit {
			return limit.Unknown, true
		}
		return now, true
	}
	// A request for more than the limit goes when all units are there.
	need := l.cost.each * float64(n)
	if l.limit > 0 {
		need = min(need, l.limit-l.reserve())
	}
	if spend := l.spend(); spend < need {
		return l.clock.Time(now, l.enough(v, need)), true
	}
	if f := l.flights.unanswered(); l.flights.maxInFlight > 0 && f > 0 && f+n > l.flights.maxInFlight {
		return limit.Unknown, true
	}
	if l.spend()-need < l.cost.each {
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
	at := int64(0)
	switch {
	case l.kind < refilling:
		at = l.window.end()
	default:
		keep := l.reserve()
		if l.refillsContinuously() {
			at = plus(v, (need+keep-l.level)/(rateSafety*l.refill.rate))
		}
		if l.kind == sliding && l.recent.on && l.limit > 0 {
			left := (l.limit-need-keep)/l.cost.each - float64(l.flights.unanswered())
			at = max(at, l.recent.free(v, max(whole(left), 0)))
		}
	}
	if l.probe.tryAt > 0 && (at <= v || l.probe.tryAt < at) {
		at = l.probe.tryAt
	}
	if at <= v {
		at = v + l.backoff
	}
	return at
}

// Take is limit.Meter's.
func (l *Ledger) Take(now time.Time, n int64) {
	v := l.clock.At(now)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	if l.share(now, v) {
		l.sharing.budget.Take(now, n)
	}
	l.flights.take(v, n)
	l.pay(n)
	if l.probe.active {
		l.probe.sent = v
	}
}

// Give is limit.Meter's.
func (l *Ledger) Give(now, taken time.Time, n int64) {
	v, at := l.clock.At(now), l.clock.On(taken)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	l.flights.give(at, n)
	if s := &l.sharing; s.number != 0 && at >= s.since {
		s.budget.Give(now, taken, n)
	}
	// An announcement since then may have been lower by these units.
	if at >= l.announced.at || !l.announced.ever {
		l.pay(-n)
		l.level = l.cap(l.level)
	} else {
		l.unexplained += float64(n)
	}
	if at == l.probe.sent {
		l.probe.sent = 0
	}
}

// Postpone is limit.Meter's.
func (l *Ledger) Postpone(now, taken time.Time, n int64) {
	v, at := l.clock.At(now), l.clock.On(taken)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	l.flights.move(at, v, n)
	if l.probe.sent > 0 && at == l.probe.sent {
		l.probe.sent = v
	}
}

// Settle is limit.Meter's.
func (l *Ledger) Settle(now, taken time.Time, estimate, actual int64) {
	v := l.clock.At(now)
	l.advance(v)
	by := l.flights.settle(l.clock.On(taken), amount(estimate), amount(actual))
	if by != 0 {
		l.pay(by)
	}
	if by < 0 {
		l.level = l.cap(l.level)
	}
}

// Done is limit.Meter's.
func (l *Ledger) Done(now, taken time.Time, n int64, o limit.Outcome) {
	v, at := l.clock.At(now), l.clock.On(taken)
	l.advance(v)
	if n = amount(n); n == 0 {
		return
	}
	late := l.flights.done(v, at, n)
	if o == limit.Refused && late < n {
		// Another limit refused the request, so this one may not have counted it.
		l.uncounted += n - late
	}
	if late == 0 {
		return
	}
	l.finished(v, late)
	switch o {
	case limit.Success, limit.Refused:
		l.unannounced(v, at, late)
	case limit.Failed, limit.Abandoned:
		l.unexplained += float64(late)
		l.uncounted += late
		l.cost.decreases.interrupt()
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
	l.announced.missing = min(l.announced.missing+n, maxAmount)
	l.cost.decreases.interrupt()
	l.unexplained += float64(n)
	l.uncounted += n
	if !l.probe.active || sent < l.probe.from {
		return
	}
	l.probe.sent = 0
	if l.probe.inRow++; l.probe.inRow < maxSilentProbes {
		return
	}
	l.probe.inRow, l.probe.active = 0, false
	if l.announced.ever && l.limit > 0 {
		l.beginWindow(v)
	}
}

// Left is limit.Meter's.
func (l *Ledger) Left(now time.Time) int64 {
	v := l.clock.At(now)
	l.advance(v)
	switch {
	case v < l.refusals.until:
		return 0
	case l.announced.free(v, l.window.period):
		return maxAmount
	case l.probe.active:
		if l.probe.sent > 0 && v-l.probe.sent < probeTimeout {
			return 0
		}
		return 1
	case !l.announced.ever:
		if l.flights.maxInFlight > 0 {
			return max(l.flights.maxInFlight-l.flights.unanswered(), 0)
		}
		return maxAmount
	case l.options.Unit == learn.Concurrent:
		if l.limit > 0 {
			return max(whole(l.limit)-l.flights.busy, 0)
		}
		return maxAmount
	}
	left := max(whole(min(l.spend(), float64(maxAmount))/l.cost.each), 0)
	if f := l.flights.unanswered(); l.flights.maxInFlight > 0 {
		left = min(left, max(l.flights.maxInFlight-f, 0))
	}
	return left
}

// Idle is limit.Meter's.
func (l *Ledger) Idle(now time.Time) bool {
	v := l.clock.At(now)
	l.advance(v)
	if l.flights.busy > 0 || v < l.refusals.until {
		return false
	}
	switch {
	case !l.announced.ever:
		return l.probe.active
	case v-l.announced.at < entityUnusedKept, !l.options.ShortLived && v-l.announced.at < unusedKept:
		return false // keep what was learned
	case l.announced.free(v, l.window.period) || l.probe.active:
		return true
	case l.kind < refilling:
		return l.limit > 0 && l.usage.own == 0 && l.level >= l.limit
	}
	return l.limit > 0 && l.level >= l.limit && (!l.recent.on || l.recent.sum == 0)
}

// Spare reports whether the next announcement would restore all that is lost with the
// ledger. A new ledger sends a probe, so at least one unit must be left. Counts that only
// the ledger has are not spare.
func (l *Ledger) Spare(now time.Time) bool {
	v := l.clock.At(now)
	l.advance(v)
	switch {
	case l.flights.busy > 0 || v < l.refusals.until:
		return false
	case !l.announced.ever:
		return true
	case v-l.announced.at < entityUnusedKept:
		return false
	case l.announced.free(v, l.window.period) || l.probe.active || l.options.Unit == learn.Concurrent:
		return true
	}
	if l.spend() < l.cost.each {
		return false
	}
	said := l.counts && l.announced.missing == 0
	return said || l.limit <= 0 || l.level >= l.limit && (!l.recent.on || l.recent.sum == 0) ||
		v-l.announced.at > max(2*l.window.period, hour)
}

// SpareAt returns when the ledger is spare at the latest, if it is not used before: at the
// end of its window, or when its announcements have expired.
func (l *Ledger) SpareAt(now time.Time) time.Time {
	v := l.clock.At(now)
	at := max(l.refusals.until, l.window.end(), l.announced.at+max(2*l.window.period, hour))
	return l.clock.Time(now, min(at, v+maxAhead))
}
