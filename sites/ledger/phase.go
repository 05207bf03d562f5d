package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// span is a range of times or of durations, in nanoseconds.
type span struct{ low, high int64 }

func (s *span) atLeast(low int64) { s.low = max(s.low, low) }
func (s *span) atMost(high int64) { s.high = min(s.high, high) }

const (
	forever      = int64(math.MaxInt64) / 4
	phaseMargin  = 20 * second / 1000 // added to the latest end
	phaseDrift   = 10_000             // a clock gains or loses at most one part in so many
	maxRestarts  = 3                  // after so many contradictions the phase is not used
	contradicted = 50 * second / 1000 // two bounds that differ by less agree
)

// phase learns the true ends of windows, which announcements tell only roughly: in whole
// seconds, of a clock that may differ. An answer of a window proves that the window had not
// ended when its request was sent; the first answer of the next window, that it had ended
// when the answer arrived. Two suppositions are tested by that:
//
//   - the end has a constant offset from the announced end, as of windows that begin on the clock
//   - a window lasts for a constant time from its first request
//
// While both are possible, the later end counts. What contradicts itself is dropped.
//
// Windows that follow each other at once may fit both for ever. So the last unit of some windows is held back until the
// next window may have begun. If it had, twice, or once and later than any window of a clock ends, one request opens each window as early, and its answer lets the others go.
type phase struct {
	skew    supposition // local clock − server's clock, by Date
	offset  supposition // end − announced end
	length  supposition // end − arrival of the first request
	rounded supposition // announced end − arrival of the first request
	early   supposition // sending of the next window's first request − arrival of this window's first answer, at least
	late    supposition // sending of the next window's first request − announced end, at least

	shortest int64 // time that an answer took; 0: none has come
	restarts int   // times that everything was contradicted
	openings int   // windows whose first request is known
	tests    int   // windows whose last unit was held back
	lost     int   // of these, windows that had ended when it was sent
	sure     int64 // time from the first answer of a window until the next has begun, of a clock or not; 0: unknown
	present  present
	hold     hold
}

// present describes the present window, as far as it is known.
type present struct {
	announced span  // bounds of the announced end, by the server's clock; high 0: none
	opening   span  // arrival of the first request; high 0: unknown
	last      int64 // the server was in this window then
	step      int64 // resolution of the announced end
	exact     bool  // it was announced as a duration
	roundTrip int64 // of the last answer
}

// supposition is a duration that is supposed to be constant.
type supposition struct {
	span           span
	begun, refuted bool
	at             int64 // when it was narrowed last
}

// learn narrows the bounds. Clocks may have drifted since the last time.
func (s *supposition) learn(v int64, item span) {
	if s.refuted {
		return
	}
	if !s.begun {
		s.begun, s.span = true, item
	} else {
		slack := (v - s.at) / phaseDrift
		s.span.low, s.span.high = max(s.span.low-slack, item.low), min(s.span.high+slack, item.high)
	}
	s.at = v
	if s.span.low > s.span.high {
		s.refuted = s.span.low-s.span.high > contradicted
		s.span.high = s.span.low
	}
}

// holds reports whether the supposition has bounds.
func (s *supposition) holds() bool { return s.begun && !s.refuted }

// restart forgets everything learned, because a refusal or an answer has contradicted it.
func (p *phase) restart() {
	*p = phase{restarts: min(p.restarts+1, maxRestarts), hold: p.hold}
	p.hold.next()
}

// forget drops the present window.
func (p *phase) forget() {
	p.present = present{}
	p.hold.next()
}

func (p *phase) usable() bool { return p.restarts < maxRestarts && p.present.announced.high > 0 }

// opens reports whether windows begin with their first request, as far as is known.
func (p *phase) opens() bool {
	return p.present.opening.high > 0 && p.openings >= 2 && !p.length.refuted
}

// note takes an answer of the present window. opener: its request was the first of the window.
func (p *phase) note(r *reading, opener bool) {
	p.present.last, p.present.roundTrip = max(p.present.last, r.sent), r.said.roundTrip
	opener = opener && p.present.opening.high == 0
	if opener {
		p.present.opening = span{r.sent, r.now}
		p.openings++
	}
	if r.said.reset == 0 {
		return
	}
	if r.said.dated {
		p.skew.learn(r.now, span{r.said.skew - second - r.said.roundTrip, r.said.skew})
	}
	p.present.step, p.present.exact = r.said.step, r.said.exact
	if p.present.announced.high == 0 {
		p.present.announced = r.said.nominal
	}
	p.present.announced.atLeast(r.said.nominal.low)
	p.present.announced.atMost(r.said.nominal.high)
	if opener {
		rounded := span{r.said.nominal.low - r.said.step/2 - r.now, r.said.nominal.high + r.said.step/2 - r.sent}
		if ahead := r.said.nominal.high - r.now; r.said.exact {
			rounded = span{ahead, ahead} // a constant length is always rounded alike
		}
		p.rounded.learn(r.now, rounded)
		p.length.refuted = p.length.refuted || p.rounded.refuted
	}
}

// close ends the present window by r, the first answer of the next.
func (p *phase) close(r *reading) {
	was := p.present
	if h := &p.hold; h.sent > 0 && r.sent == h.sent {
		p.lost++
	}
	if p.usable() && p.present.last > 0 && r.now > p.present.last && was.announced.low <= was.announced.high {
		if p.present.opening.high > 0 {
			p.length.learn(r.now, span{p.present.last - p.present.opening.high, min(r.now, p.known(r.now).high) - p.present.opening.low})
			// What these two took longer than the shortest, the next may be faster. A quarter of that one is a margin.
			at := r.now + was.opening.high - was.opening.low - 7*p.shortest/4
			p.early.learn(r.now, span{-forever, at - was.opening.high})
			p.late.learn(r.now, span{-forever, at - was.announced.high})
			// So long are windows of a clock at most. What comes as long after their first request as this comes after their end.
			if longest := r.said.nominal.high - was.announced.low; r.said.reset > 0 && p.restarts == 0 && longest >= 2*was.step && longest-longest%second <= r.sent-was.opening.high {
				p.sure = min(cmp.Or(p.sure, forever), at-was.opening.high)
			}
		}
		if p.present.exact || p.present.step < second {
			p.offset.learn(r.now, span{p.present.last - was.announced.high, r.now - was.announced.low})
		}
	}
	p.forget()
	if p.length.refuted && p.offset.refuted {
		p.restart()
	}
}

// known returns the end of the window by its announcement; at most by, the end without a phase.
func (p *phase) known(by int64) span {
	skew, round := span{-maxSkewLeft, maxSkewLeft}, span{-p.present.step, p.present.step}
	switch {
	case p.present.exact:
		skew, round.low = span{}, 0
	case p.skew.holds() && p.restarts == 0:
		skew = p.skew.span
	case p.skew.begun: // and may be wrong
		skew = span{p.skew.span.low - maxSkewLeft, p.skew.span.high + maxSkewLeft}
	}
	return span{p.present.announced.low + skew.low + round.low, min(by, p.present.announced.high+skew.high+round.high+phaseMargin)}
}

// tried reports whether windows begin with their first request, as far as is known, and units that were held back have
// opened two, or one that no window of a clock would have outlasted: it may have met the end of such a window. One request goes at early and late then, not all.
// Of windows of a clock one request goes at late if a window, or half of it, would be missed until the latest end, and no such request was refused.
func (p *phase) tried() bool {
	if known := p.known(forever); p.length.refuted {
		return p.restarts == 0 && p.lost > 0 && !p.offset.refuted && p.late.begun && !p.present.exact && 2*(known.high-known.low) >= known.high-p.present.opening.high
	}
	return (p.lost > 1 || p.lost > 0 && p.sure > 0) && p.opens() && p.length.begun
}

// end returns the end of the present window; at most by, the latest end without a phase.
func (p *phase) end(by int64) span {
	if !p.usable() {
		return span{0, by}
	}
	known := p.known(by)
	end := span{forever, 0}
	if !p.offset.refuted {
		end = known
		if p.offset.begun && (p.present.exact || p.present.step < second) && p.present.announced.low <= p.present.announced.high {
			end.atLeast(p.present.announced.low + p.offset.span.low)
			end.atMost(p.present.announced.high + p.offset.span.high + phaseMargin)
		}
	}
	if !p.length.refuted {
		item := known
		if p.present.opening.high > 0 && p.length.begun {
			item.atLeast(p.present.opening.low + p.length.span.low)
			item.atMost(p.present.opening.high + p.length.span.high + phaseMargin)
		}
		end = span{min(end.low, item.low), max(end.high, item.high)}
	}
	switch {
	case !p.tried():
	case p.length.refuted:
		end.atMost(p.present.announced.high + p.late.span.high)
	default:
		if p.lost > 1 {
			end.atMost(max(p.present.opening.high+p.early.span.high, p.present.announced.high+p.late.span.high))
		}
		end.atMost(p.present.opening.high + cmp.Or(p.sure, forever))
	}
	end.atLeast(p.present.last)
	end.atMost(by)
	return end
}

// follow takes an answer of the present window, or of the next if opens is true, and moves
// the certain end of the window to what is known of it.
func (a *allowance) follow(r *reading, opens bool) {
	p, w := &a.phase, &a.window
	if a.kind >= refilling || w.reset == 0 {
		p.forget()
		return
	}
	p.shortest = min(cmp.Or(p.shortest, r.said.roundTrip), r.said.roundTrip)
	if opens {
		p.close(r)
	}
	if r.bounds.known && r.said.left < 2*a.cost.each {
		p.hold.usedUp = true
	}
	p.note(r, r.bounds.known && a.limit > 0 && r.said.left >= a.limit-a.cost.each*float64(max(r.own, 1)))
	w.close = w.close || p.length.refuted || p.lost > 0 // of a clock, or a unit that was held back has opened the next
	if p.opens() && !w.lengthAnnounced && w.period > w.farthest() {
		w.period = w.longest // between these ends nothing was asked for a while
	}
	if by := p.end(w.over).high; by < w.over && by > r.now {
		w.over = by
	}
}

// hold is the state of holding back the last unit of a window. Sent while it is uncertain
// whether the window has ended, it is not refused: it is the last unit of the window, or it
// opens the next. Its answer tells which, and the end is known more exactly from then on.
type hold struct {
	demand int64 // units that wait for the limit
	peak   int64 // the most that have waited in this window
	before int64 // the same for the window before
	since  int64 // when the last unit was first held back; 0: it was not
	spent  bool  // the window before was used up: otherwise one client alone may not need this one
	usedUp bool  // this window is used up, but for the last unit
	sent   int64 // when it was sent as a probe; 0: it was not
	done   bool  // the last unit of this window was sent, or is not held back any more
}

// next begins another window.
func (h *hold) next() {
	*h = hold{demand: h.demand, peak: h.demand, before: h.peak, spent: h.usedUp}
}

// Demand implements queue.Remote.
func (l *Ledger) Demand(now time.Time, units int64) {
	a := &l.allowance
	a.phase.hold.demand = units
	a.phase.hold.peak = max(a.phase.hold.peak, units)
	if l.sharing.number != 0 {
		l.sharing.budget.Demand(now, units)
	}
}

const (
	longestHold  = 5 * minute // longer windows lose little by their margins
	fewestToHold = 5          // units of a limit of which one may be lost
	maxTests     = 8          // windows in which the last unit is held back, until something is contradicted
	maxLost      = 4          // of these, windows whose last unit was lost: it was sent after their end
	holdGrace    = second / 4 // for others to come that want the last unit, too
)

// holdsLast reports until when the last unit is held back; 0: it is not.
func (l *Ledger) holdsLast(v int64) int64 {
	a := &l.allowance
	h := &a.phase.hold
	at := int64(0)
	if !h.done && l.mayHold(v) {
		at = a.phase.testAt(a.window.end())
	}
	if at <= v {
		return 0
	}
	h.since = cmp.Or(h.since, v)
	switch crowd := max(h.peak, h.before) > 1; {
	case !crowd && !h.spent:
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
	a := &l.allowance
	w := &a.window
	period := cmp.Or(w.period, w.reset-w.opened)
	return (!a.shared || l.sharing.together != nil) && a.kind < refilling && a.counts && a.unit == learn.Requests && w.reset > 0 && v < w.end() &&
		!w.limitGuessed && a.limit >= fewestToHold*a.cost.each && period <= longestHold && !a.usedByOthers() &&
		w.opened-w.before <= w.farthest() && // otherwise something else keeps requests for longer
		(a.phase.present.step >= second || !a.phase.skew.holds()) && // otherwise it is announced exactly
		a.phase.usable() && a.phase.opens() && a.phase.tests < maxTests && a.phase.lost < maxLost
}

// testAt returns the time at which the last unit tells most about the end of a window: the
// latest end that is likely and early enough to gain something. It is 0 if the end is known.
func (p *phase) testAt(windowEnd int64) int64 {
	end := p.end(windowEnd)
	if p.present.exact {
		end.atLeast(p.present.announced.high) // a request before that is still counted in a rolling window
	}
	enough := max((end.high-p.present.opening.low)/30, 2*p.present.roundTrip)
	for _, length := range p.likely() {
		if at := p.present.opening.high + length + phaseMargin; length >= p.present.step && length > p.length.span.low && at > end.low && end.high-at > enough {
			return at
		}
	}
	return 0
}

// likely returns the likely lengths of a window: whole seconds, of which the announced end,
// cut or rounded up to a second, tells two.
func (p *phase) likely() [3]int64 {
	skew := int64(0)
	if p.skew.holds() {
		skew = p.skew.span.low + (p.skew.span.high-p.skew.span.low)/2
	}
	length := p.present.announced.high + skew - p.present.opening.high
	length += (second - length%second) % second
	if n := length / second; slices.Contains(usualWindows[:], n-1) && !slices.Contains(usualWindows[:], n) {
		return [3]int64{length - second, length, length + second}
	}
	return [3]int64{length, length - second, length + second}
}

// sendLast starts a probe with the last unit of a window, if its time has come.
func (l *Ledger) sendLast(v int64) {
	a := &l.allowance
	h := &a.phase.hold
	if h.since == 0 || h.done || !a.shared && a.spend() >= 2*a.cost.each || !l.mayHold(v) || a.phase.testAt(a.window.end()) > v {
		return
	}
	h.done, h.sent = true, v
	a.phase.tests++
	l.probe.start(v)
}
