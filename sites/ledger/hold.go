package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// hold is the state of holding back the last unit of a window. Sent while it is uncertain
// whether the window has ended, it is not refused: it is the last unit of the window, or it
// opens the next. Its answer tells which, and the end is known more exactly from then on.
type hold struct {
	demand int64 // units that wait for the limit
	peak   int64 // the most that have waited in this window
	before int64 // the same for the window before
	since  int64 // when the last unit was first held back; 0: it was not
	spent  int   // windows in a row that were used up
	usedUp bool  // this window is used up, but for the last unit
	sent   int64 // when it was sent as a probe; 0: it was not
	done   bool  // the last unit of this window was sent, or is not held back any more
}

// next begins another window.
func (h *hold) next() {
	h.spent++
	if !h.usedUp {
		h.spent = 0
	}
	*h = hold{demand: h.demand, peak: h.demand, before: h.peak, spent: min(h.spent, spentBeforeOne)}
}

// Demand is queue.Demanding's.
func (l *Ledger) Demand(now time.Time, units int64) {
	l.phase.hold.demand = units
	l.phase.hold.peak = max(l.phase.hold.peak, units)
	if l.sharing.number != 0 {
		l.sharing.budget.Demand(now, units)
	}
}

const (
	longestHold    = 5 * minute // longer windows lose little by their margins
	fewestToHold   = 10         // units of a limit of which one may be lost
	maxTests       = 4          // windows in which the last unit is held back, until something is contradicted
	maxLost        = 2          // of these, windows whose last unit was lost: it was sent after their end
	holdGrace      = second / 4 // for others to come that want the last unit, too
	manyWindows    = 24         // after which a test is worth it though the server's clock is known
	spentBeforeOne = 1          // windows that one client has used up before its request is held back
)

// holdsLast reports until when the last unit is held back; 0: it is not.
func (l *Ledger) holdsLast(v int64) int64 {
	h := &l.phase.hold
	at := int64(0)
	if !h.done && l.mayHold(v) {
		at = l.phase.testAt(l.window.end())
	}
	if at <= v {
		return 0
	}
	if h.since == 0 {
		h.since = v
	}
	switch crowd := max(h.peak, h.before) > 1; {
	case !crowd && h.spent < spentBeforeOne:
		h.done = true
		return 0
	case crowd && h.demand < 2 && v-h.since >= holdGrace:
		h.done = true // it may be the last request of all
		return 0
	case crowd && v-h.since < holdGrace:
		return min(at, h.since+holdGrace)
	}
	return at
}

// mayHold reports whether the limit is one whose last unit may be held back.
func (l *Ledger) mayHold(v int64) bool {
	w := &l.window
	period := w.period
	if period == 0 {
		period = w.reset - w.opened
	}
	return !l.shared && l.sharing.budget == nil && l.kind < refilling && l.counts && l.unit == learn.Requests && w.reset > 0 && v < w.end() &&
		!w.limitGuessed && !l.cost.varies && l.limit >= fewestToHold*l.cost.each && period <= longestHold && !l.usedByOthers() &&
		l.phase.usable() && l.phase.opens() && !l.phase.exact && !l.phase.aligned && l.phase.tests < maxTests && l.phase.lost < maxLost
}

// testAt is when the last unit tells most about the end of a window: at the latest end
// that is likely and early enough to gain something. It is 0 if the end is known.
func (p *phase) testAt(windowEnd int64) int64 {
	end := p.end(windowEnd)
	enough := max((end.high-p.opening.low)/15, 2*p.roundTrip)
	for _, length := range p.likely() {
		if at := p.opening.high + length + phaseMargin; at > end.low && end.high-at > enough {
			return at
		}
	}
	return 0
}

// likely are the likely lengths of a window: whole seconds, of which the announced end, cut
// or rounded up to a second, tells two.
func (p *phase) likely() [3]int64 {
	skew := int64(0)
	if p.skew.holds() {
		skew = p.skew.low + (p.skew.high-p.skew.low)/2
	}
	length := p.announced.high + skew - p.opening.high
	length = fullSecond(length)
	return [3]int64{length, length - second, length + second}
}

// sendLast starts a probe with the last unit of a window, if its time has come.
func (l *Ledger) sendLast(v int64) {
	h := &l.phase.hold
	if h.since == 0 || h.done || l.spend() >= 2*l.cost.each || !l.mayHold(v) {
		return
	}
	if at := l.phase.testAt(l.window.end()); at > v {
		return
	}
	h.done, h.sent = true, v
	l.phase.tests++
	l.probe.start(v)
}
