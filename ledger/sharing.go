package ledger

import (
	"time"

	"github.com/abide-proxy/abide/learn"
)

// Budget is what a fleet has of one window of a server's at a time. Its calls are as
// those of limit.Meter, queue.Demanding and queue.Asking.
type Budget interface {
	// Window says which window what follows is about: its number, which is the same for
	// all instances, how much there is in it, and how long it is. It returns how much of
	// the one before others than the fleet have used, at most.
	Window(now time.Time, number, amount int64, period time.Duration) (outside int64)

	// Said says how much of the window the server has said to be used, by anybody, and to
	// how many requests of this instance there were answers. With outside, others than
	// the fleet are thought to use some of it.
	Said(now time.Time, used, answered int64, outside bool)

	When(now time.Time, n int64) (time.Time, bool)
	Take(now time.Time, n int64)
	Give(now, taken time.Time, n int64)
	Demand(now time.Time, units int64)
	Asks(now time.Time, n int64) bool
}

// sharing is how a ledger takes part in a budget of a fleet.
type sharing struct {
	budget Budget // nil: nobody else spends of the limit

	last, end int64 // number of the newest window whose end was said, and that end; 0: none
	number    int64 // of the window of which the budget is now; 0: it is not used
	amount    int64 // of that
	since     int64 // when it began to be used for it
	began     int64 // when the first one was; 0: none was
}

// Share has what is taken come out of a fleet's budget as well, while the server says
// when its windows end.
func (l *Ledger) Share(b Budget) { l.sharing.budget = b }

// share tells whether the fleet's budget holds now, and tells that which window is
// there and what was already taken of it.
func (l *Ledger) share(now time.Time, v int64) bool {
	s, w := &l.sharing, &l.window
	if s.budget == nil {
		return false
	}
	number := int64(0)
	if l.heard && l.counts && l.tells() && l.options.Unit == learn.Requests && l.limit >= 1 && !w.guess && w.period > 0 && !l.free(v) {
		number = l.windowNumber(v)
	}
	if number == 0 {
		s.number = 0
		return false
	}
	if number == s.number {
		l.shareSaid(now, v)
	}
	amount := max(whole((l.limit-l.reserve())/l.cost.each), 1)
	if number == s.number && amount == s.amount {
		return true
	}
	taken := int64(0)
	if number != s.number {
		if taken = l.own; s.number != 0 && w.reset > 0 && !l.numbersIt(v) {
			taken = l.flights.unanswered() // nothing was heard of the new one yet
		}
		s.since = v
		if s.began == 0 {
			s.began = max(v, 1)
		}
	}
	if s.budget.Window(now, number, amount, time.Duration(w.period)) > 0 && l.sharedFor(v, 2) {
		l.foreignAt = max(v, 1)
	}
	s.number, s.amount = number, amount
	if taken > 0 {
		s.budget.Take(now, taken)
	}
	return true
}

// shareSaid has what the server says be the most that there is for the fleet.
func (l *Ledger) shareSaid(now time.Time, v int64) {
	s, w := &l.sharing, &l.window
	if w.leastAt == 0 || !l.numbersIt(v) {
		return // of the window before
	}
	answered := max(l.own-l.flights.unanswered(), 0)
	s.budget.Said(now, whole((l.limit-w.least)/l.cost.each), answered, l.guarded())
}

// sharedFor tells whether the limit has been shared for the length of so many windows. In
// the first one the fleet's budget does not have all that was used.
func (l *Ledger) sharedFor(v, windows int64) bool {
	return l.sharing.began > 0 && v-l.sharing.began > windows*l.window.period
}

// windowNumber is the number of the present window: how many of its length have passed
// since the last one whose end was said, with the number of that one.
func (l *Ledger) windowNumber(v int64) int64 {
	s, w := &l.sharing, &l.window
	if w.reset > 0 {
		l.numbered(w.reset)
	}
	switch end := w.end(); {
	case s.last == 0:
		return 0
	case w.reset > 0 && v < end:
		return s.last
	case w.reset == 0 && v < end: // begun by our clock
		return s.last + max((w.opened-s.end)/w.period+1, 1)
	}
	return s.last + max((v-s.end)/w.period+1, 1)
}

// numbersIt tells whether the newest number is that of the window whose end was said to
// this instance. Others may have told the number of the next one already.
func (l *Ledger) numbersIt(v int64) bool {
	s, w := &l.sharing, &l.window
	by := s.end - w.reset
	return w.reset > 0 && v < w.end() && by <= w.period/2 && -by <= w.period/2
}

// numbered hears of the end of a window.
func (l *Ledger) numbered(reset int64) {
	s, period := &l.sharing, l.window.period
	switch by := reset - s.end; {
	case s.last == 0:
		// Instances know the length of a window only roughly. This is the same for all of
		// them, and grows no faster than the number of windows.
		step := 3 * second / 2
		for step < period {
			step *= 4
		}
		s.last, s.end = (reset+step/2)/step, reset
	case by > period/2:
		s.last, s.end = s.last+(by+period/2)/period, reset
	}
}

// agree takes over the number that another instance has for a window. Of two for one
// window the larger one holds.
func (l *Ledger) agree(number, reset int64) {
	s := &l.sharing
	if s.budget == nil || number <= 0 {
		return
	}
	if number > s.last && reset > s.end-l.window.period/2 {
		s.last, s.end = number, reset
	}
}

// When is limit.Meter's.
func (l *Ledger) When(now time.Time, n int64) (time.Time, bool) {
	t, ok := l.when(now, n)
	if l.sharing.budget != nil && ok && n > 0 && !t.After(now) {
		t = l.shareWhen(now, n)
	}
	return t, ok
}

// shareWhen is when the fleet's budget gives n that the ledger itself would let go now.
func (l *Ledger) shareWhen(now time.Time, n int64) time.Time {
	v := l.clock.last
	if !l.share(now, v) {
		return now
	}
	if l.closing(v) {
		return l.clock.time(now, l.window.end())
	}
	t, ok := l.sharing.budget.When(now, n)
	if !ok || !t.After(now) {
		return now
	}
	if end := l.window.end(); end > v {
		if next := l.clock.time(now, end); next.Before(t) {
			return next // it is another budget then
		}
	}
	return t
}

// closing tells whether the window may be over, with little left of it. What goes then
// may be counted in the next one, of which others may have all when they hear of it.
func (l *Ledger) closing(v int64) bool {
	w := &l.window
	return w.reset > 0 && v < w.end() && v >= w.reset-min(w.over-w.reset, second) && l.level < l.limit/4
}

// Demand is queue.Demanding's.
func (l *Ledger) Demand(now time.Time, units int64) {
	if l.sharing.number != 0 {
		l.sharing.budget.Demand(now, units)
	}
}

// Asks is queue.Asking's.
func (l *Ledger) Asks(now time.Time, n int64) bool {
	if l.sharing.number == 0 {
		return false
	}
	t, ok := l.when(now, n)
	return ok && !t.After(now) && l.share(now, l.clock.last) && !l.closing(l.clock.last) && l.sharing.budget.Asks(now, n)
}
