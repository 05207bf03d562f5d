package ledger

import (
	"cmp"
	"math"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// WindowReport is a server's announcement of a window, sent to other instances.
type WindowReport struct {
	Limit  int64         // of the window; 0: as the other instance knows it
	Used   int64         // the most units announced as used
	Reset  time.Time     // end of the window, by the local clock
	Window time.Duration // length of the window; 0: not known
	Number int64         // number of the window, the same for all instances; 0: not known
	// The first request of the window was sent and answered then, by the clock of this machine; zero: not known.
	Sent, Answered time.Time `json:",omitzero"`
}

// Report returns what was announced of the present window. It returns false without a
// window, or if its end or what is left was not announced.
func (l *Ledger) Report(now time.Time) (WindowReport, bool) {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	w := &a.window
	if !l.reportsToOthers() || w.reset <= v || w.lowestLeftAt == 0 || w.limitGuessed || a.limit <= 0 {
		return WindowReport{}, false
	}
	t := WindowReport{Limit: whole(a.limit), Used: max(whole(a.limit-w.lowestLeft), 0), Reset: l.clock.Time(now, w.reset), Window: time.Duration(w.period)}
	if l.sharing.number != 0 {
		t.Number = l.sharing.numbering.present(v, w)
		if opening := a.phase.present.opening; opening.high > 0 && l.sharing.together != nil {
			t.Sent, t.Answered = now.Add(time.Duration(opening.low-v)), now.Add(time.Duration(opening.high-v))
		}
	}
	return t, true
}

// reportsToOthers reports whether announcements are the same for all instances.
func (l *Ledger) reportsToOthers() bool {
	return l.allowance.kind < refilling && !l.announced.unlimited && l.allowance.unit != learn.Concurrent
}

// sameEndTolerance bounds the difference of two instances about the reset of one window.
const sameEndTolerance = 2 * second

// AcceptReport takes another instance's report. It never raises the units left, unless its
// window is newer and the present one has ended. Reports may be repeated or reordered.
func (l *Ledger) AcceptReport(now time.Time, t WindowReport) {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	reset := l.clock.On(t.Reset)
	size := cmp.Or(float64(amount(t.Limit)), a.limit)
	if t.Reset.IsZero() || reset <= v || reset-v > maxAhead || t.Used < 0 || t.Limit < 0 || size <= 0 || !l.reportsToOthers() {
		return
	}
	if l.sharing.budget != nil {
		l.sharing.numbering.agree(t.Number, reset, a.window.period)
	}
	left := max(size-float64(amount(t.Used)), 0)
	if !l.announced.ever || !a.counts || a.limit <= 0 {
		if left < 1 { // the first request would be refused
			l.refusals.until = max(l.refusals.until, reset+maxSkewLeft)
		}
		return
	}
	w := &a.window
	opening := span{l.clock.On(t.Sent), l.clock.On(t.Answered)}
	if l.sharing.together == nil || t.Sent.IsZero() || opening.high > v || opening.low > opening.high {
		opening = span{}
	}
	if l.sharing.together != nil && !l.sharing.lasted(v, w.period) {
		a.usage.foreign, a.usage.foreignAt = 0, 0 // it was that process
	}
	seen := v
	if opening.high > 0 { // by the same clock: the window before has ended, although its announced end may be rounded up
		seen = max(v, w.reset)
	}
	at := w.positionOf(seen, reset, int64(t.Window))
	switch at {
	case newer:
		a.adoptWindow(v, reset, left, opening)
		l.probe.active, l.probe.sent = false, 0
	case same:
		if w.reset == 0 {
			a.phase.close(&reading{now: opening.high, sent: opening.low})
			w.adopt(v, announcement{reset: reset, certainEnd: reset + maxSkewLeft + second, slop: maxSkewLeft + second})
		}
		a.limitLevel(v, left)
	}
	if p := &a.phase; at != older && opening.high > 0 && p.present.opening.high == 0 {
		p.present.opening, w.longest = opening, max(w.longest, reset-opening.low)
		p.openings++
	}
}

// positionOf compares a window with that reset to the present one. A window of uncertain
// position counts as older, so it has no effect.
func (w *window) positionOf(v, reset, period int64) position {
	near := sameEndTolerance
	if period = max(period, w.period); period > 0 {
		near = min(near, period/8)
	}
	far := max(near, w.slop, period/2)
	switch {
	case w.reset == 0 && w.before == 0:
		return older
	case w.reset == 0 && reset-w.before > far:
		return same // begun by the clock
	case w.reset == 0:
		return older
	case reset-w.reset <= near && w.reset-reset <= near:
		return same
	case reset-w.reset > far && v >= w.reset:
		return newer
	}
	return older
}

// limitLevel lowers the level to left units.
func (a *allowance) limitLevel(v int64, left float64) {
	w := &a.window
	if w.lowestLeftAt == 0 || left < w.lowestLeft {
		w.lowestLeft, w.lowestLeftAt = left, v
	}
	if a.level > left {
		a.unexplained += a.level - left // more that is announced later proves nothing
		a.level = left
	}
}

// adoptWindow takes a window whose start only other instances have seen. The server may or
// may not have counted the requests in flight there.
func (a *allowance) adoptWindow(v, reset int64, left float64, opening span) {
	w := &a.window
	margin := maxSkewLeft + second
	if w.over > w.reset {
		margin = min(margin, w.over-w.reset)
	}
	a.turn(a.flights.unanswered())
	a.phase.close(&reading{now: opening.high, sent: opening.low})
	w.adopt(v, announcement{reset: reset, certainEnd: reset + margin, slop: w.slop})
	w.opened, w.hadPrevious = v, true
	a.level = max(min(left, a.limit)-a.cost.each*float64(a.flights.unanswered()), -float64(maxAmount))
	w.lowestLeft, w.lowestLeftAt = left, v
}

// Status is a ledger's state for operators.
type Status struct {
	Limit, Remaining int64         // -1: not known
	Reset            time.Time     // zero: not known
	Window           time.Duration // in which all units come back, at once or one after another; 0: not known
	State            string        // "unknown", "probing", "open" or "spent"
	SoFar            bool          // Window is a first estimate: not two windows in a row began whole after that time
	Own, Foreign     int64         // units recently used by this process, and by other clients
}

// Status returns the state of the ledger for operators.
func (l *Ledger) Status(now time.Time) Status {
	a := &l.allowance
	v := l.clock.At(now)
	l.advance(v)
	s := Status{
		Limit: -1, Remaining: -1, Window: time.Duration(a.window.shown()),
		SoFar: a.window.period > 0 && !a.window.lengthAnnounced && a.window.wholeInRow < 2 && a.kind < refilling,
		State: "open", Own: a.usage.own + a.usage.ownBefore,
	}
	if !l.sharing.used() { // else other instances may have used them
		s.Foreign = a.usage.foreign + a.usage.foreignBefore
	}
	if a.limit > 0 {
		s.Limit = whole(a.limit)
		if a.refillsContinuously() {
			s.Window = time.Duration(a.limit / a.refill.rate * float64(second))
		}
	}
	switch level := l.remaining(v); {
	case l.options.Unit == learn.Concurrent && a.limit > 0:
		s.Remaining = max(s.Limit-a.flights.busy, 0)
	case l.options.Unit != learn.Concurrent && l.announced.ever && !math.IsInf(level, 0):
		s.Remaining = max(whole(level), 0)
	}
	if a.kind < refilling && a.window.end() > v {
		s.Reset = l.clock.Time(now, max(a.window.end(), l.refusals.until))
	}
	switch {
	case !l.announced.ever:
		s.State = "unknown"
	case v < l.refusals.until:
		s.State = "spent"
		s.Remaining, s.Reset = min(s.Remaining, 0), cmp.Or(s.Reset, l.clock.Time(now, l.refusals.until))
	case l.free(v):
	case l.probe.active:
		s.State = "probing"
	case l.Left(now) == 0 && (l.options.Unit == learn.Concurrent || a.spend() < a.cost.each):
		s.State = "spent"
		if s.Reset.IsZero() && l.options.Unit != learn.Concurrent {
			s.Reset = l.clock.Time(now, l.enough(v, a.cost.each))
		}
	}
	return s
}

// remaining returns the units that are left as people know them. After the end of a window those are all, though no
// answer of the next was seen. Infinity is unknown: nothing was left, and no end was announced.
func (l *Ledger) remaining(v int64) float64 {
	a := &l.allowance
	end := a.window.end()
	if a.kind == sliding {
		end = l.announced.at + a.window.period
	}
	switch {
	case a.limit > 0 && a.kind != refilling && end > 0 && v >= end:
		return a.rollingBound()
	case a.kind < refilling && end == 0 && l.probe.active && a.spend() < a.cost.each:
		return math.Inf(1)
	}
	return a.spend() + a.reserve()
}

// Rest returns what is left in units, as people know it, while Left counts requests that may go at once.
func (l *Ledger) Rest(now time.Time) int64 {
	if s := l.Status(now); s.Remaining >= 0 {
		return s.Remaining
	}
	return l.Left(now)
}
