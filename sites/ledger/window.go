package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// window is the server's present window, in times of the ledger's clock.
type window struct {
	reset           int64 // earliest announced end; 0: not announced
	earliest        int64 // the window has certainly not ended before
	over            int64 // when the window has certainly ended; 0: unknown
	earlyBy         int64 // how much earlier it may end, if no end is announced
	slop            int64
	before          int64   // reset of the previous window
	opened          int64   // when the window was first seen
	period          int64   // length; 0: unknown
	lengthAnnounced bool    // the server announces the length
	limitGuessed    bool    // the limit is a guess: the server does not announce it
	lowestLeft      float64 // lowest announced units left
	lowestLeftAt    int64   // time of that announcement; 0: none
	uncounted       int64   // allowance.uncounted when the window was first seen

	hadPrevious     bool  // there was an earlier window
	wholeInRow      int   // windows in a row that began with all units
	notWholeInRow   int   // windows in a row that did not
	partialReturns  int   // times that some units came back within the window
	returnsOneByOne bool  // units come back gradually
	serverDelay     int64 // how much later than announced the server's window ends
	longest         int64 // the longest time from a request until the announced end
	close           bool  // windows have followed each other at once, so period is no longer than they are
}

// adopt takes the announced end of the window.
func (w *window) adopt(v int64, h announcement) {
	if h.reset == 0 {
		return
	}
	if w.lengthAnnounced && v+w.period < h.certainEnd {
		h.certainEnd = v + w.period // a window that has begun is over after its length
	}
	if w.reset == 0 || h.renewed || h.reset-w.reset > w.tolerance(&h) {
		before := cmp.Or(w.reset, w.before)
		if by := h.reset - before; before > 0 && !w.lengthAnnounced && (h.renewed || by > w.slop+h.slop) && by <= cmp.Or(w.period, maxAhead) {
			w.period = by
		}
		w.before, w.reset, w.over, w.slop, w.earliest = before, h.reset, h.certainEnd, h.slop, h.earliest
		return
	}
	w.reset, w.over, w.slop, w.earliest = min(w.reset, h.reset), min(w.over, h.certainEnd), max(w.slop, h.slop), min(w.earliest, h.earliest)
}

// move takes an end that has changed before its time. Such an end tells nothing about the
// length of a window, and the limit may have no windows, so earlier conclusions are
// dropped.
func (w *window) move(v int64, h announcement) {
	period := w.period
	w.adopt(v, h)
	w.period = period
	w.wholeInRow, w.notWholeInRow = 0, 0
}

// end returns when the window has certainly ended; 0: unknown.
func (w *window) end() int64 {
	if w.over == 0 {
		return 0
	}
	return w.over + w.serverDelay
}

// delay raises the margin for a server whose windows end later than announced.
func (w *window) delay() {
	w.serverDelay = min(2*w.serverDelay+second/4, 5*second, max(cmp.Or(w.period, forever)/4, second/4))
}

// tolerance returns how much two resets of one window can differ.
func (w *window) tolerance(h *announcement) int64 {
	return min(max(w.slop, h.slop), cmp.Or(w.period, forever)/2)
}

// position compares an announced window with the present one.
type position uint8

const (
	same position = iota
	older
	newer
)

func (w *window) place(h *announcement) position {
	t := w.tolerance(h)
	switch {
	case h.reset == 0:
		return same
	case h.renewed:
		return newer
	case w.reset == 0 && w.before > 0 && h.reset-w.before <= t:
		return older
	case w.reset == 0 || h.reset-w.reset > t:
		return newer
	case w.reset-h.reset > t:
		return older
	}
	return same
}

// renewed reports whether a response is the first of the next window. Its end may be announced hardly later, as windows may be as short as the rounding.
func (a *allowance) renewed(r *reading) bool {
	w := &a.window
	return a.kind < refilling && r.bounds.known && a.limit > 0 && w.reset > 0 && r.now >= w.earliest && r.said.reset-w.reset > r.said.slop-r.said.step &&
		w.lowestLeftAt > 0 && r.sent >= w.lowestLeftAt && r.said.left > w.lowestLeft && r.said.left >= a.limit-a.cost.each*float64(max(r.own, 1))
}

// expire ends a window that has ended by the clock.
func (l *Ledger) expire(v int64) {
	a := &l.allowance
	alone := !a.shared || !a.usedByOthers() // otherwise others may have used some already
	if alone && !a.phase.tried() && a.window.wholeInRow >= trustedWindows && a.limit > 0 && (a.counts || a.window.reset > 0) {
		a.beginWindow(v)
		return
	}
	l.probe.start(v)
}

// beginWindow begins a window that the server has not announced yet.
func (a *allowance) beginWindow(v int64) {
	w := &a.window
	taken := a.flights.unanswered() + a.lateResponses()
	w.before = cmp.Or(w.reset, w.before)
	w.reset, w.opened, w.hadPrevious = 0, v, true
	w.over = v + max(w.period, second) + maxSkewLeft
	if w.period == 0 {
		w.over = v + guessedWindow
	}
	a.level = max(a.limit-a.cost.each*float64(taken), -float64(maxAmount))
	a.turn(taken)
}

// turn forgets the announcements of the window before. The next has taken units already.
func (a *allowance) turn(taken int64) {
	a.usage.newWindow(taken)
	a.unexplained = 0
	a.window.lowestLeftAt, a.window.uncounted = 0, a.uncounted
	if a.evidence.sample.at < a.levelAt { // otherwise it is of the window that begins
		a.evidence.sample = sample{}
	}
	a.cost.forget()
}

// guessedWindow is the length of a window that has begun by the clock while no length is known.
const guessedWindow = minute

// Announced reports whether an answer has told what is left.
func (l *Ledger) Announced() bool { return l.announced.ever }

// GuessedWindow returns the length that a forecast takes the windows to have, and 0 if it is known, follows
// from an end that was announced, or the limit has no windows.
func (l *Ledger) GuessedWindow() time.Duration {
	if w := &l.allowance.window; l.allowance.kind < refilling && l.allowance.limit > 0 && w.period == 0 && w.longest == 0 && w.reset == 0 && w.before == 0 && w.end() > 0 {
		return time.Duration(w.guess())
	}
	return 0
}

// guess returns the length of the windows: if it is not known, that of the longest time that was announced
// until an end, or a usual length little above it.
func (w *window) guess() int64 {
	length := cmp.Or(w.period, w.longest, guessedWindow)
	for _, seconds := range usualWindows {
		if usual := seconds * second; w.period == 0 && length-second <= usual && usual <= length*5/4 {
			return usual
		}
	}
	return length
}

// shown returns the length of the windows for people. Requests that come late put two ends further apart than the
// length, and the time that is announced until an end is no longer, but for its rounding up and down (slop): a usual
// length between both is the length, unless windows have followed each other at once.
func (w *window) shown() int64 {
	for _, seconds := range slices.Backward(usualWindows[:]) {
		if usual := seconds * second; !w.lengthAnnounced && !w.close && w.longest > 0 && w.longest-second-w.slop <= usual && usual <= w.period {
			return usual
		}
	}
	return w.period
}

// continueByLength prepares a copy for a forecast, in which each window begins at the end of the one before.
func (w *window) continueByLength() {
	w.period = w.guess()
	if w.over > 0 {
		w.over += maxSkewLeft
	}
	w.serverDelay -= maxSkewLeft
}

// farthest returns how far the ends of two windows that begin with their first request may be apart, if requests wait
// for the end of the first.
func (w *window) farthest() int64 { return w.longest + maxSkewLeft + second }

// lateResponses returns the units of responses so close to the end of the window that the
// server may have counted them in the next one. With an announced end there are none.
func (a *allowance) lateResponses() int64 {
	if w := &a.window; w.reset == 0 && w.over > 0 {
		return a.flights.since(w.over - w.earlyBy)
	}
	return 0
}

// open takes the window that a response announces.
func (a *allowance) open(r *reading) {
	w := &a.window
	a.turn(a.flights.unanswered() + 1)
	switch {
	case r.said.reset > 0:
		w.adopt(r.now, r.said)
		if w.over <= r.now {
			w.over = r.now + a.backoff // over by its announcement, and not over: rounded, or always so
		}
	case w.period > 0:
		w.reset, w.over, w.earlyBy = 0, r.now+w.period, r.said.roundTrip
	default:
		w.reset, w.over = 0, 0
	}
	w.opened = r.now
}

// updateFixed updates a limit whose units all come back at the end of a window.
func (a *allowance) updateFixed(r *reading) Surprise {
	w := &a.window
	at := a.window.place(&r.said)
	was := w.reset
	if r.said.reset > 0 {
		w.longest = max(w.longest, min(r.said.reset+r.said.step-r.sent, maxAhead))
	}
	switch {
	case at == older:
		a.oldWindow(r)
		return Surprise{}
	case at == newer && a.rolls(r):
		a.becomeSliding(r.now, w.longest)
		a.level = r.bounds.low
		return Surprise{}
	case at == newer && was == 0 && !r.probe && w.opened <= r.sent:
		// This is the window that began by the clock.
		w.adopt(r.now, r.said)
		a.follow(r, true)
		a.noteFull(r, a.level+a.cost.each*float64(r.own))
		news, _ := a.clamp(r)
		return news
	case at == newer && !r.probe && !r.probing && was > 0 && !(a.kind == fixed && r.now >= w.earliest):
		// The end has moved before its time: only the lower bound is certain.
		if r.bounds.known {
			a.level = r.bounds.low
		}
		w.move(r.now, r.said)
		a.phase.forget()
		w.hadPrevious = true
		return Surprise{}
	case at == newer, r.said.reset == 0 && r.probe:
		return a.newWindow(r)
	case r.said.reset == 0 && r.sent < w.opened:
		a.unexplained += float64(r.own) // counted in this window or in the one before
		return Surprise{}
	}
	return a.sameWindow(r)
}

// rolls reports whether a response shows a rolling window whose announced end is that of its
// oldest request: after an end not all units have come back, and another end follows soon.
func (a *allowance) rolls(r *reading) bool {
	w := &a.window
	end := cmp.Or(w.reset, w.before)
	whole := r.said.left+a.cost.each*float64(a.flights.unanswered()+r.own+1) >= a.limit*0.98
	return end > 0 && r.now >= end && r.bounds.known && !whole && !a.shared && w.longest >= 4*(r.said.step+second/4) && r.said.reset-end < w.longest/2
}

// sameWindow takes over an announcement of the present window.
func (a *allowance) sameWindow(r *reading) Surprise {
	w := &a.window
	news, gained := a.clamp(r)
	if r.said.reset == 0 && w.over > 0 && r.bounds.known && r.bounds.high >= a.limit-a.cost.each*float64(max(r.own, 1)) {
		// This may be the first response of the next window, though responses that were
		// in flight with it announced less.
		w.over, w.earlyBy = max(w.over, r.now+w.period), max(w.earlyBy, r.said.roundTrip)
	}
	if r.said.reset > 0 {
		w.adopt(r.now, r.said)
		if r.probe && w.over <= r.now {
			// The window should be over and is not, or its end is rounded.
			w.over = r.now + a.backoff
			if gained < 1 {
				a.backoff = min(2*a.backoff, maxProbePause*second)
			}
		}
		if r.probe {
			gained = 0
		}
		a.follow(r, false)
	} else if bound := r.now + w.period; w.period > 0 && (w.over == 0 || w.over > bound) {
		w.over, w.earlyBy = bound, 2*r.said.roundTrip
	}
	if gained < 1 || w.limitGuessed {
		return news
	}
	if r.said.reset > 0 {
		// Near the end this may be the next window.
		clear := r.now+w.slop < w.earliest
		news.Higher = clear && a.cost.each == 1 && (a.kind == fixed || a.kind == undecided && !w.hadPrevious && a.evidence.steadyResets >= minEvidence) && gained > max(1, a.limit/100) && a.unit == learn.Requests && r.sent >= w.opened
		return news
	}
	a.cameBack(r)
	return news
}

// cameBack handles an increase of the units left in a window without an announced end.
func (a *allowance) cameBack(r *reading) {
	w := &a.window
	if r.bounds.high >= a.limit-a.cost.each*(float64(a.flights.unanswered()+r.own)+2)-a.limit/10 {
		a.open(r) // all units came back
		w.hadPrevious = true
		w.partialReturns = 0
		return
	}
	if w.partialReturns++; w.partialReturns < 4 {
		return
	}
	w.partialReturns = 0
	if w.lengthAnnounced {
		a.becomeSliding(r.now, w.period)
		return
	}
	// The length was a wrong guess.
	w.period, w.over, w.returnsOneByOne = 0, 0, true
	a.increasedAt = r.now
}

// newWindow opens the window of an announcement.
func (a *allowance) newWindow(r *reading) Surprise {
	taken := r.own
	if r.said.reset == 0 {
		taken = max(a.lateResponses(), r.own)
	}
	level := max(a.limit-a.cost.each*float64(a.flights.unanswered()+r.beside+taken), -float64(maxAmount))
	if r.own == 0 {
		level -= a.cost.each
	}
	sure := a.noteFull(r, level)
	a.window.hadPrevious = true
	a.open(r)
	a.follow(r, true)
	a.usage.own = a.flights.unanswered() + max(r.own, 1)
	if a.limit <= 0 {
		if r.bounds.known {
			a.level = r.bounds.low
		}
		return Surprise{}
	}
	a.level = level
	if r.bounds.known {
		a.window.lowestLeft, a.window.lowestLeftAt = r.bounds.high, r.now
		a.cost.sample(r.now, a.counted(r), r.said.left, r.bounds.uncounted, 0, false)
	}
	if a.kind == sliding {
		return Surprise{}
	}
	var news Surprise
	if r.bounds.known {
		if r.bounds.high < level && sure {
			a.addForeignUse(r.now, level-r.bounds.high, &news)
		}
		a.level = max(min(level, r.bounds.high), r.bounds.low)
		if a.kindUncertain() {
			a.level = r.bounds.low
		}
	}
	return news
}

// noteFull records whether a window began with all units, and returns whether earlier
// windows did.
func (a *allowance) noteFull(r *reading, level float64) (sure bool) {
	w := &a.window
	sure = w.wholeInRow > 0
	if !r.bounds.known || a.limit <= 0 {
		return sure
	}
	if r.said.left >= level-1.5*a.cost.each-a.limit/100-a.cost.each*float64(r.own) {
		w.wholeInRow, w.notWholeInRow = min(w.wholeInRow+1, trustedWindows), 0
		return sure
	}
	if a.shared {
		return sure // other instances have begun before
	}
	// As much is left as before, so nothing came back.
	w.wholeInRow = 0
	enough := 2
	if w.lengthAnnounced && r.said.reset == 0 {
		enough = 1 // a rolling window never takes more than a fixed one
	}
	if w.notWholeInRow++; w.notWholeInRow >= enough && w.period > 0 && r.said.left < a.limit/2 {
		if !w.lengthAnnounced && r.said.reset == 0 {
			w.period, w.over, w.returnsOneByOne, w.notWholeInRow = 0, 0, true, 0
			return sure
		}
		a.becomeSliding(r.now, w.period)
		a.level = r.bounds.low
	}
	return sure
}

// oldWindow takes an announcement of a window that has ended by the clock.
func (a *allowance) oldWindow(r *reading) {
	w := &a.window
	if r.sent < w.opened {
		// The request was counted in that window, and not in this one.
		a.level = a.cap(a.level + a.cost.each*float64(r.own))
		a.usage.own = max(a.usage.own-r.own, 0)
		return
	}
	if w.reset > 0 || !r.bounds.known {
		return
	}
	// The server's window ends later than expected.
	w.wholeInRow = 0
	a.phase.restart()
	w.delay()
	w.reset, w.over, w.slop = r.said.reset, max(r.said.certainEnd, r.now), r.said.slop
	a.level = min(a.level, r.bounds.high)
}
