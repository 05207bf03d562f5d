package ledger

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Budget is a budget of several instances for the windows of a server's limit. Its first methods are those of limit.Meter
// and of the queue's optional interfaces.
type Budget interface {
	When(now time.Time, n int64) (time.Time, bool)
	Take(now time.Time, n int64)
	Give(now, taken time.Time, n int64)
	Demand(now time.Time, units int64)
	Asks(now time.Time, n int64) bool
	Left(now time.Time) int64
	OthersUse() bool // others use it now

	// Window sets the window: its number, which is the same for all instances, its amount
	// and length. It returns an upper bound of what clients outside of the fleet used of
	// the previous window.
	Window(now time.Time, number, amount int64, period time.Duration) (outside int64)

	// Said sets how much of the window the server reports as used, by any client, and how
	// many requests of this instance were answered. outside means that clients outside of
	// the fleet are assumed to use some.
	Said(now time.Time, used, answered int64, outside bool)
}

// sharing is the state of a ledger whose limit a fleet shares.
type sharing struct {
	budget   Budget      // nil: not shared
	together func() bool // whether there are other processes of this machine, which have one clock and share it; nil: a fleet does

	numbering numbering
	number    int64 // number of the budget's window; 0: the budget is not used
	amount    int64 // of that window
	since     int64 // start of the use of the budget for that window
	began     int64 // start of the use of the budget; 0: never
}

// used reports whether there are others to share the limit with.
func (s *sharing) used() bool { return s.budget != nil && (s.together == nil || s.together()) }

// lasted reports whether the limit has been shared for longer than length. In its first
// window the budget lacks earlier use.
func (s *sharing) lasted(v, length int64) bool { return s.began > 0 && v-s.began > length }

// Share takes units also from the fleet's budget, while the server announces the ends of
// windows. together tells whether other processes of this machine share it; it is nil for a fleet.
func (l *Ledger) Share(b Budget, together func() bool) {
	l.sharing.budget, l.sharing.together = b, together
}

// share reports whether the fleet's budget applies now, and sets its window and the units
// taken before.
func (l *Ledger) share(now time.Time, v int64) bool {
	a := &l.allowance
	s, w := &l.sharing, &a.window
	if s.budget == nil {
		return false
	}
	number := int64(0)
	if s.used() && l.announced.ever && a.counts && l.reportsToOthers() && l.options.Unit == learn.Requests && a.limit >= 1 && !w.limitGuessed && w.period > 0 && !l.free(v) {
		number = s.numbering.present(v, w)
	}
	if number == 0 {
		s.number, a.shared = 0, false
		return false
	}
	if number == s.number {
		l.shareSaid(now, v)
	}
	amount := max(whole((a.limit-a.reserve())/a.cost.each), 1)
	if number == s.number && amount == s.amount {
		a.shared = a.shared || s.budget.OthersUse()
		return true
	}
	taken := int64(0)
	if number != s.number {
		if taken = a.usage.own; w.reset > 0 && !s.numbering.isCurrent(v, w) {
			taken = a.flights.unanswered() // nothing is announced of the new window yet
		}
		s.since, s.began = v, cmp.Or(s.began, max(v, 1))
	}
	if s.budget.Window(now, number, amount, time.Duration(w.period)) > 0 && s.lasted(v, 2*w.period) {
		a.usage.foreignAt = max(v, 1)
	}
	s.number, s.amount, a.shared = number, amount, a.shared || s.together == nil || s.budget.OthersUse()
	if taken > 0 {
		s.budget.Take(now, taken)
	}
	return true
}

// shareSaid limits the fleet's budget to the announced units.
func (l *Ledger) shareSaid(now time.Time, v int64) {
	a := &l.allowance
	s, w := &l.sharing, &a.window
	if w.lowestLeftAt == 0 || !s.numbering.isCurrent(v, w) {
		return // the announcement is of the window before
	}
	answered := max(a.usage.own-a.flights.unanswered(), 0)
	s.budget.Said(now, whole((a.limit-w.lowestLeft)/a.cost.each), answered, a.usedByOthers())
}

func (l *Ledger) When(now time.Time, n int64) (time.Time, bool) {
	at, ok := l.when(now, n)
	if l.sharing.budget == nil || !ok || n <= 0 || at.After(now) {
		return at, ok
	}
	v := l.clock.Last()
	if !l.share(now, v) {
		return now, true
	}
	next := l.clock.Time(now, l.sharing.numbering.next(v, &l.allowance.window))
	if l.mayBeOver(v) {
		return next, true
	}
	if at, ok = l.sharing.budget.When(now, n); !ok {
		return now, true
	}
	if next.Before(at) { // the window of another budget begins
		at = next
	}
	return at, true
}

// mayBeOver reports whether the window may have ended, with few units left: the server may
// count requests in the next window, of which other instances may have all units.
func (l *Ledger) mayBeOver(v int64) bool {
	a, w := &l.allowance, &l.allowance.window
	return a.shared && w.reset > 0 && v < w.end() && v >= w.reset-min(w.over-w.reset, second) && a.level < a.limit/4 && !l.probe.active && v >= a.phase.end(w.over).low
}

// isLast reports whether n units are the last of the window, of those that others may take, too.
func (l *Ledger) isLast(now time.Time, n int64, need float64) bool {
	a := &l.allowance
	if a.shared {
		return l.sharing.budget.Left(now) == n
	}
	return a.spend()-need < a.cost.each
}

// Away implements queue.Remote: without a store the instance has the limit for itself.
func (l *Ledger) Away(time.Time) bool { return false }

// Asks implements queue.Remote.
func (l *Ledger) Asks(now time.Time, n int64) bool {
	t, ok := l.when(now, n)
	return l.sharing.number != 0 && ok && !t.After(now) && l.share(now, l.clock.Last()) && !l.mayBeOver(l.clock.Last()) && l.sharing.budget.Asks(now, n)
}

// numbering numbers the windows of a limit alike in all instances of a fleet. The zero
// value has no number.
type numbering struct {
	last, end int64 // number of the newest window whose end was announced, and that end
}

// present returns the number of the present window: that of the last window with an announced
// end, plus the windows since; 0: unknown.
func (n *numbering) present(v int64, w *window) int64 {
	if w.reset > 0 {
		n.announce(w.reset, w.period)
	}
	if n.last == 0 || w.reset > 0 && v < w.end() {
		return n.last
	}
	if v < w.end() { // begun by our clock
		v = w.opened
	}
	return n.last + max((v-n.end)/w.period+1, 1)
}

// next returns when the window after the present one begins.
func (n *numbering) next(v int64, w *window) int64 {
	if v < w.end() {
		return w.end()
	}
	return n.end + (max(v-n.end, 0)/w.period+1)*w.period
}

// isCurrent reports whether the newest number belongs to the window whose end was announced
// to this instance. Other instances may have sent the number of the next window already.
func (n *numbering) isCurrent(v int64, w *window) bool {
	by := n.end - w.reset
	return w.reset > 0 && v < w.end() && by <= w.period/2 && -by <= w.period/2
}

// announce takes the end of a window.
func (n *numbering) announce(reset, period int64) {
	switch by := reset - n.end; {
	case n.last == 0:
		// Instances know the length of a window only roughly. The step is the same for all
		// of them, and grows no faster than the number of windows.
		step := 3 * second / 2
		for step < period {
			step *= 4
		}
		n.last, n.end = (reset+step/2)/step, reset
	case by > period/2:
		n.last, n.end = n.last+(by+period/2)/period, reset
	}
}

// agree takes another instance's number of the window with a reset. Of two numbers for one
// window the larger one is used.
func (n *numbering) agree(number, reset, period int64) {
	if number > max(n.last, 0) && reset > n.end-period/2 {
		n.last, n.end = number, reset
	}
}
