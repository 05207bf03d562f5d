package ledger

import (
	"time"

	"github.com/abide-proxy/abide/learn"
)

// Tale is what a server has said of a window to anybody, for others who spend of it.
type Tale struct {
	Limit  int64         // of the window; 0: whatever the listener knows
	Used   int64         // the most that was said to be used
	Reset  time.Time     // when it ends, by the local clock
	Window time.Duration // its length; 0: not known
	Number int64         // of the window, for all who spend of it; 0: not known
}

// Tale is what the ledger has heard of the present window. It is false where no
// window is: of a bucket, or where its end or what is left of it was not said.
func (l *Ledger) Tale(now time.Time) (Tale, bool) {
	v := l.clock.at(now)
	l.look(v)
	w := &l.window
	if !l.tells() || w.reset <= v || w.leastAt == 0 || w.guess || l.limit <= 0 {
		return Tale{}, false
	}
	number := int64(0)
	if l.sharing.number != 0 {
		number = l.windowNumber(v)
	}
	return Tale{
		Number: number,
		Limit:  whole(l.limit), Used: max(whole(l.limit-w.least), 0), Reset: l.clock.time(now, w.reset),
		Window: time.Duration(w.period),
	}, true
}

// tells tells whether others know the same of the limit.
func (l *Ledger) tells() bool {
	return l.kind < refilling && !l.off && l.options.Unit != learn.Concurrent
}

// oneEnd is by how much two instances may differ about the reset of one window.
const oneEnd = 2 * second

// Told hears from somebody else what the server has said of a window. No more is left
// by it than before, unless it is a newer window than ours, and that is over. To hear
// it again, or another one before it, makes no difference.
func (l *Ledger) Told(now time.Time, t Tale) {
	v := l.clock.at(now)
	l.look(v)
	reset := l.clock.on(t.Reset)
	if t.Reset.IsZero() || reset <= v || reset-v > credible || t.Used < 0 || t.Limit < 0 || !l.tells() {
		return
	}
	size := l.limit
	if t.Limit > 0 {
		size = float64(amount(t.Limit))
	}
	if size <= 0 {
		return
	}
	l.agree(t.Number, reset)
	left := max(size-float64(amount(t.Used)), 0)
	if !l.heard || !l.counts || l.limit <= 0 {
		if left < 1 { // our first would be refused
			l.until = max(l.until, reset+skewed)
		}
		return
	}
	w := &l.window
	switch l.whose(v, reset, int64(t.Window)) {
	case newer:
		l.follow(v, reset, left)
	case same:
		if w.reset == 0 {
			before := w.before
			w.adopt(v, told{reset: reset, over: reset + skewed + second, slop: skewed + second})
			w.before = before
		}
		l.tighten(v, left)
	}
}

// whose is the window that ends then, beside ours. That of which neither is sure is
// older, so that nothing follows from it.
func (l *Ledger) whose(v, reset, period int64) position {
	w := &l.window
	near := oneEnd
	if period = max(period, w.period); period > 0 {
		near = min(near, period/8)
	}
	far := max(near, w.slop, period/2)
	switch {
	case w.reset == 0 && w.before == 0:
		return older
	case w.reset == 0 && reset-w.before > far:
		return same // it was begun by our clock
	case w.reset == 0:
		return older
	case reset-w.reset <= near && w.reset-reset <= near:
		return same
	case reset-w.reset > far && v >= w.reset:
		return newer
	}
	return older
}

// tighten takes over that no more than this is left.
func (l *Ledger) tighten(v int64, left float64) {
	w := &l.window
	if w.leastAt == 0 || left < w.least {
		w.least, w.leastAt = left, v
	}
	if l.level > left {
		l.slack += l.level - left // if more is said to be left after that, nobody is surprised
		l.level = left
	}
}

// follow takes over a window that has begun unseen by us. Of what is under way nobody
// knows whether the server has counted it there.
func (l *Ledger) follow(v, reset int64, left float64) {
	w := &l.window
	margin := skewed + second
	if w.over > w.reset {
		margin = min(margin, w.over-w.reset)
	}
	l.past()
	l.own, l.foreign, l.slack = l.flights.unanswered(), 0, 0
	l.sample, w.leastAt = sample{}, 0
	l.cost.forget()
	before := w.reset
	w.adopt(v, told{reset: reset, over: reset + margin, slop: w.slop})
	w.before, w.opened, w.passed = before, v, true
	l.level = max(min(left, l.limit)-l.cost.each*float64(l.flights.unanswered()), -float64(most))
	w.least, w.leastAt = left, v
	l.probing, l.probeAt = false, 0
}
