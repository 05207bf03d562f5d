package ledger

import (
	"github.com/abide-proxy/abide/learn"
)

// window is what is known of the server's, on the ledger's clock.
type window struct {
	reset   int64 // the earliest nominal end that was said of this one; 0: not said
	over    int64 // when it surely is over; 0: nobody knows
	lag     int64 // and by how much earlier it may be, where no end is said
	slop    int64
	before  int64   // the reset of the one before
	opened  int64   // when this one was seen to be open
	period  int64   // its length; 0: not known
	said    bool    // the server said its length
	guess   bool    // the server did not say the limit
	least   float64 // that was said to be left of it
	leastAt int64   // when that was heard; 0: it was not

	passed bool  // there was one before this one
	fulls  int   // windows, one after the other, that were full right after the reset
	shorts int   // that were not
	creeps int   // times that some of it came back
	crept  bool  // so it does not come back at once
	extra  int64 // by how much the server is later than it says
}

// adopt takes over what was said of the end.
func (w *window) adopt(v int64, h told) {
	if h.reset == 0 {
		return
	}
	if w.said && v+w.period < h.over {
		h.over = v + w.period // a window that has begun is over by then
	}
	if w.reset == 0 || h.reset-w.reset > w.tolerance(h) {
		if by := h.reset - w.reset; w.reset > 0 && !w.said && by > w.slop+h.slop {
			if by <= credible && (w.period == 0 || by < w.period) {
				w.period = by
			}
		}
		w.before, w.reset, w.over, w.slop = w.reset, h.reset, h.over, h.slop
		return
	}
	w.reset, w.over, w.slop = min(w.reset, h.reset), min(w.over, h.over), max(w.slop, h.slop)
}

// move takes over an end that has moved before its time. That says nothing of how long
// a window is, and one that moves may be no window: what was whole after it, or was not,
// proves nothing.
func (w *window) move(v int64, h told) {
	period := w.period
	w.adopt(v, h)
	if !w.said {
		w.period = period
	}
	w.fulls, w.shorts = 0, 0
}

// end is when this one surely is over; 0: nobody knows.
func (w *window) end() int64 {
	if w.over == 0 {
		return 0
	}
	return w.over + w.extra
}

// delay is for a server that is later than it says.
func (w *window) delay() {
	most := 5 * second
	if w.period > 0 {
		most = min(most, max(w.period/4, second/4))
	}
	w.extra = min(2*w.extra+second/4, most)
}

// tolerance is by how much two resets of one window can differ.
func (w *window) tolerance(h told) int64 {
	t := max(w.slop, h.slop)
	if w.period > 0 {
		t = min(t, w.period/2)
	}
	return t
}

// place is where a window is that was spoken of.
type position uint8

const (
	same position = iota
	older
	newer
)

func (l *Ledger) place(h told) position {
	w := &l.window
	t := w.tolerance(h)
	switch {
	case h.reset == 0:
		return same
	case w.reset == 0:
		if w.before > 0 && h.reset-w.before <= t {
			return older
		}
		return newer
	case h.reset-w.reset > t:
		return newer
	case w.reset-h.reset > t:
		return older
	}
	return same
}

// expire is for a window that is over by our clock.
func (l *Ledger) expire(v int64) {
	l.tally(v)
	alone := l.sharing.number == 0 || !l.guarded() // else others may have used some of it already
	if alone && l.window.fulls >= trusted && l.limit > 0 && (l.counts || l.window.reset > 0) {
		l.roll(v)
		return
	}
	l.probe(v)
}

// tally learns from a whole window what its requests have cost.
func (l *Ledger) tally(v int64) {
	w := &l.window
	if l.sharing.number != 0 || l.options.Unit != learn.Requests || w.leastAt == 0 || w.least <= 0 || l.flights.unanswered() > 0 {
		return
	}
	if n := l.flights.taken - l.cost.answered; n >= 8 {
		if x, _, ok := l.cost.sample(v, l.flights.taken, w.least, 0, 0); ok {
			l.cost.constant(x, l.limit, sureOf/3, 0)
		}
	}
}

// roll begins a new window, of which the server has said nothing yet.
func (l *Ledger) roll(v int64) {
	w := &l.window
	taken := l.flights.unanswered() + l.lately()
	if w.reset > 0 {
		w.before = w.reset
	}
	w.reset, w.opened, w.passed = 0, v, true
	w.over = v + max(w.period, second) + skewed
	if w.period == 0 {
		w.over = v + minute
	}
	l.level = max(l.limit-l.cost.each*float64(taken), -float64(most))
	l.past()
	l.own, l.foreign, l.slack = taken, 0, 0
	l.sample, l.window.leastAt = sample{}, 0
	l.cost.forget()
}

// lately is what was answered so shortly before the end of a window that it may have
// come when the next had begun. Where the end is said, it cannot.
func (l *Ledger) lately() int64 {
	if w := &l.window; w.reset == 0 && w.over > 0 {
		return l.flights.since(w.over - w.lag)
	}
	return 0
}

// past keeps half of what was used in windows before, for people.
func (l *Ledger) past() {
	l.ownBefore = (l.ownBefore + l.own) / 2
	l.foreignBefore = (l.foreignBefore + l.foreign) / 2
}

// open takes over the window that an answer has shown.
func (l *Ledger) open(v int64, h told) {
	w := &l.window
	l.past()
	l.own, l.foreign, l.slack = l.flights.unanswered()+1, 0, 0
	l.sample, l.window.leastAt = sample{}, 0
	l.cost.forget()
	switch {
	case h.reset > 0:
		if w.before = w.reset; w.reset == 0 {
			w.before = 0
		}
		w.adopt(v, h)
		if w.over <= v {
			w.over = v + l.wait // over and not: it says so to the second, or always
		}
	case w.period > 0:
		w.reset, w.over, w.lag = 0, v+w.period, l.trip
	default:
		w.reset, w.over = 0, 0
	}
	w.opened = v
}

// fixed hears of a window that is whole again at its end.
func (l *Ledger) fixed(v, sent, own int64, probe bool, b bounds, h told) News {
	w := &l.window
	at := l.place(h)
	was := w.reset
	switch {
	case at == older:
		l.behind(v, sent, own, b, h)
		return News{}
	case at == newer && was == 0 && !probe && w.opened <= sent:
		// The window that was begun by our clock.
		before := w.before
		w.adopt(v, h)
		w.before = before
		if by := h.reset - before; before > 0 && !w.said && by > w.slop && by <= credible && (w.period == 0 || by < w.period) {
			w.period = by
		}
		l.full(v, l.level+l.cost.each*float64(own), own, b, h)
		news, _ := l.clamp(v, sent, b)
		return news
	case at == newer && !probe && !l.probing && was > 0 && !(l.kind == fixed && v >= was-w.tolerance(h)):
		// The end has moved before its time: only what is sure is left.
		if b.known {
			l.level = b.low
		}
		w.move(v, h)
		w.passed = true
		return News{}
	case at == newer:
		return l.renew(v, sent, own, b, h)
	case h.reset == 0 && probe:
		return l.renew(v, sent, own, b, h)
	case h.reset == 0 && sent < w.opened:
		l.slack += float64(own) // it was counted in this window or in the one before
		return News{}
	}
	return l.within(v, sent, own, probe, b, h)
}

// within hears of the window of which the ledger knows.
func (l *Ledger) within(v, sent, own int64, probe bool, b bounds, h told) News {
	w := &l.window
	news, gained := l.clamp(v, sent, b)
	if h.reset == 0 && w.over > 0 && b.known && b.high >= l.limit-l.cost.each*float64(max(own, 1)) {
		// It is the first of a window, which may be the next one though answers that
		// were under way with it said less.
		w.over, w.lag = max(w.over, v+w.period), max(w.lag, l.trip)
	}
	if h.reset > 0 {
		w.adopt(v, h)
		if probe && w.over <= v {
			// It should be over and is not, or its end is said to the second.
			w.over = v + l.wait
			if gained < 1 {
				l.wait = min(2*l.wait, patient*second)
			}
		}
		if probe {
			gained = 0
		}
	} else if bound := v + w.period; w.period > 0 && (w.over == 0 || w.over > bound) {
		w.over, w.lag = bound, 2*l.trip
	}
	if gained < 1 || w.guess {
		return news
	}
	if h.reset > 0 {
		// Near the end it may be the next window.
		clear := v+2*w.slop < w.reset
		news.Higher = clear && l.cost.each == 1 && (l.kind == fixed || l.kind == undecided && !w.passed && l.steady >= certain) && gained > max(1, l.limit/100) && l.options.Unit == learn.Requests && sent >= w.opened
		return news
	}
	l.more(v, own, b, h)
	return news
}

// more hears, where no end is said, that more is left than there was.
func (l *Ledger) more(v, own int64, b bounds, h told) {
	w := &l.window
	if b.high >= l.limit-l.cost.each*(float64(l.flights.unanswered()+own)+2)-l.limit/10 {
		l.open(v, h) // all of it came back
		w.passed = true
		w.creeps = 0
		return
	}
	if w.creeps++; w.creeps < 4 {
		return
	}
	w.creeps = 0
	if w.said {
		l.slide(v, w.period)
		return
	}
	// Its length was a guess, and a wrong one.
	w.period, w.over, w.crept = 0, 0, true
	l.gainedAt = v
}

// renew opens the window that an answer shows to be there.
func (l *Ledger) renew(v, sent, own int64, b bounds, h told) News {
	taken := own
	if h.reset == 0 {
		taken = max(l.lately(), own)
	}
	level := max(l.limit-l.cost.each*float64(l.flights.unanswered()+taken), -float64(most))
	if own == 0 {
		level -= l.cost.each
	}
	sure := l.full(v, level, own, b, h)
	l.window.passed = true
	l.open(v, h)
	l.own = l.flights.unanswered() + max(own, 1)
	if sent < l.window.opened && l.options.Unit == learn.Requests {
		l.slow = 0 // the first window has behaved
	}
	if l.limit <= 0 {
		if b.known {
			l.level = b.low
		}
		return News{}
	}
	l.level = level
	if b.known {
		l.window.least, l.window.leastAt = b.high, v
		l.cost.sample(v, l.counted(b), h.left, b.uncounted, 0)
	}
	if l.kind == sliding {
		return News{}
	}
	var news News
	if b.known {
		if b.high < level && sure {
			l.used(v, level-b.high, &news)
		}
		l.level = max(min(level, b.high), b.low)
		if l.doubtful() {
			l.level = b.low
		}
	}
	return news
}

// full notes whether a window was whole when it began, where so much was to be
// left of it. It tells whether windows before were.
func (l *Ledger) full(v int64, level float64, own int64, b bounds, h told) (sure bool) {
	w := &l.window
	sure = w.fulls > 0
	if !b.known || l.limit <= 0 {
		return sure
	}
	if h.left >= level-1.5*l.cost.each-l.limit/100-l.cost.each*float64(own) {
		w.fulls, w.shorts = min(w.fulls+1, trusted), 0
		return sure
	}
	if l.sharing.number != 0 {
		return sure // others have begun before
	}
	// What is left goes on from what was left, so nothing came back.
	w.fulls = 0
	if w.shorts++; w.shorts >= 2 && w.period > 0 && h.left < l.limit/2 {
		if !w.said && h.reset == 0 {
			w.period, w.over, w.crept, w.shorts = 0, 0, true, 0
			return sure
		}
		l.slide(v, w.period)
		if b.known {
			l.level = b.low
		}
	}
	return sure
}

// behind hears of a window that is over by our clock.
func (l *Ledger) behind(v, sent, own int64, b bounds, h told) {
	w := &l.window
	if sent < w.opened {
		// It was counted there, and not here.
		l.level = l.cap(l.level + l.cost.each*float64(own))
		l.own = max(l.own-own, 0)
		return
	}
	if w.reset > 0 || !b.known {
		return
	}
	// The server is later than we were.
	w.fulls = 0
	w.delay()
	w.reset, w.over, w.slop = h.reset, max(h.over, v), h.slop
	l.level = min(l.level, b.high)
}
