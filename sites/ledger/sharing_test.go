package ledger

import (
	"math"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// countedBudget is a budget of processes of one machine, of which some units are left.
type countedBudget struct {
	wholeBudget
	left, taken int64
	others      bool // others use it
}

func (b *countedBudget) When(now time.Time, n int64) (time.Time, bool) {
	if b.left < n {
		return now.Add(100 * time.Second), true
	}
	return now, true
}
func (b *countedBudget) Take(_ time.Time, n int64) { b.left, b.taken = b.left-n, b.taken+n }
func (b *countedBudget) Left(time.Time) int64      { return b.left }
func (b *countedBudget) OthersUse() bool           { return b.others }

func notAlone() bool { return true }

// says6 is what a server answers whose windows of 6 s begin with their first request, at begin, in whole seconds.
func (d *driver) says6(left, begin float64) learn.Limit {
	said := d.says(10, left, float64(int(begin+6-d.v)+1))
	said.Resolution = time.Second
	return said
}

// windows has two windows of ten units pass, of which nine are used, and returns the begin of the next.
func (d *driver) windows() (begin float64) {
	for range 2 {
		begin := d.v
		for left := 9.; left > 0; left-- {
			sent := d.send()
			d.v += .02
			d.hear(sent, d.says6(left, begin))
		}
		d.v = begin + 7.03 // it has ended then, whatever was rounded
	}
	return d.v
}

// TestARefusalWithinAWindowSaysNothingAgainstItsEnd: others have taken what was left. One of a request that opens the next window
// says that the end is later.
func TestARefusalWithinAWindowSaysNothingAgainstItsEnd(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		d := newDriver(t, Options{})
		l := d.m.(*Ledger)
		begin := d.windows()
		if late {
			begin -= 7.03
		} else {
			d.hear(d.send(), d.says6(9, begin))
			d.v += .02
		}
		sent := d.send()
		d.v += .02
		d.refused(sent, d.says6(0, begin), math.NaN())
		if restarted := l.allowance.phase.restarts > 0; restarted != late {
			t.Errorf("after the end: %v, what was learned of it is forgotten: %v", late, restarted)
		}
		if wait := d.wait(); !late && wait > 7.1 {
			t.Errorf("the refusal is waited for for %v s", wait)
		}
	}
}

// TestTheFirstWindowThatIsSharedHasAllItsUnits: what was taken of the one before does not count.
func TestTheFirstWindowThatIsSharedHasAllItsUnits(t *testing.T) {
	t.Parallel()
	d, budget := newDriver(t, Options{}), &countedBudget{left: 10}
	d.windows()
	d.m.(*Ledger).Share(budget, notAlone)
	if d.send(); budget.taken > 2 {
		t.Errorf("%d units are taken of it by one request", budget.taken)
	}
}

// TestNobodyTakesOfABudgetWithoutAskingIt: before anything is known of the use of others, these may have all of it.
func TestNobodyTakesOfABudgetWithoutAskingIt(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.windows()
	d.hear(d.send(), d.says6(9, d.v))
	d.m.(*Ledger).Share(&countedBudget{}, notAlone)
	d.waits(1, 9)
}

// TestTheLastUnitOfAllIsHeldBack: of processes that use one budget, whatever the site said is left.
func TestTheLastUnitOfAllIsHeldBack(t *testing.T) {
	t.Parallel()
	for left, waits := range map[int64]bool{2: false, 1: true} {
		d := newDriver(t, Options{})
		d.windows()
		l, budget := d.m.(*Ledger), &countedBudget{left: 10, others: true}
		l.Demand(d.now(), 8)
		l.Share(budget, notAlone)
		begin, sent := d.v, d.send()
		d.v += .02
		d.hear(sent, d.says6(9, begin))
		l.Demand(d.now(), 8)
		if budget.left = left; (d.wait() > 0) != waits {
			t.Errorf("where %d are left, it waits for %v s", left, d.wait())
		}
	}
}

// TestAnotherProcessTellsWhenAWindowBegan: both have one clock. Instances of a fleet may have others.
func TestAnotherProcessTellsWhenAWindowBegan(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]func() bool{"a machine": notAlone, "a fleet": nil} {
		d := newDriver(t, Options{})
		l := d.m.(*Ledger)
		l.Share(&countedBudget{left: 100, others: true}, shared)
		d.windows()
		d.v += .5
		begin := d.v - .4
		l.AcceptReport(d.now(), WindowReport{Limit: 10, Used: 3, Reset: seconds(begin + 6), Sent: seconds(begin - .01), Answered: seconds(begin + .01)})
		if known := l.allowance.phase.present.opening.high > 0; known != (shared != nil) {
			t.Errorf("%s: when the window began is known: %v", name, known)
		}
		if l.allowance.usage.foreignAt != 0 {
			t.Errorf("%s: what the other used is taken for that of other clients", name)
		}
	}
}
