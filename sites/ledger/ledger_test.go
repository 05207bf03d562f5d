package ledger

import (
	"math"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

// driver operates a meter by hand.
type driver struct {
	t *testing.T
	m limit.Meter
	v float64 // seconds since epoch
}

func newDriver(t *testing.T, o Options) *driver { return &driver{t: t, m: New(o)} }

func (d *driver) now() time.Time { return seconds(d.v) }

// wait is how long one has to wait, -1 for somebody else's answer.
func (d *driver) wait() float64 {
	at, ok := d.m.When(d.now(), 1)
	switch {
	case !ok:
		return math.Inf(1)
	case at.Equal(limit.Unknown):
		return -1
	}
	return max(at.Sub(d.now()).Seconds(), 0)
}

func (d *driver) goes() {
	d.t.Helper()
	if w := d.wait(); w != 0 {
		d.t.Fatalf("at %v it waits for %v s", d.v, w)
	}
}

func (d *driver) waits(least, most float64) {
	d.t.Helper()
	if w := d.wait(); w < least || w > most {
		d.t.Fatalf("at %v it waits for %v s, want %v to %v", d.v, w, least, most)
	}
}

// send takes one, and is when.
func (d *driver) send() time.Time {
	d.t.Helper()
	d.goes()
	d.m.Take(d.now(), 1)
	return d.now()
}

// hear hears an answer, of a request that is then over.
func (d *driver) hear(sent time.Time, s learn.Limit) Surprise {
	news := d.m.(*Ledger).Update(d.now(), Answer{Sent: sent, Units: 1, Limit: s})
	d.m.Done(d.now(), sent, 1, limit.Success)
	return news
}

func (d *driver) refused(sent time.Time, s learn.Limit, retry float64) {
	a := Answer{Sent: sent, Units: 1, Limit: s, Refused: true, Named: true}
	if !math.IsNaN(retry) {
		a.RetryAt = seconds(d.v + retry)
	}
	d.m.(*Ledger).Update(d.now(), a)
	d.m.Done(d.now(), sent, 1, limit.Refused)
}

func some(n float64) learn.Amount { return learn.Amount{N: n, Known: true} }

// says is limit and left, and the seconds until the reset, which the server said
// exactly.
func (d *driver) says(limit, left, reset float64) learn.Limit {
	return learn.Limit{Limit: some(limit), Remaining: some(left), Reset: seconds(d.v + reset), Relative: true}
}

func TestTheFirstGoesAlone(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	sent := d.send()
	d.v += 1
	d.waits(-1, -1)
	d.v += 15
	d.goes() // it is not waited for any longer
	d.v -= 15
	d.hear(sent, d.says(100, 99, 60))
	d.send()
	d.send()
	d.waits(-1, -1) // slow start
}

func TestAnswersWithoutAWordOpenItByAndBy(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		d := newDriver(t, Options{})
		var sent []time.Time
		for range 1000 { // each answer makes room for one more, after the first few
			sent = append(sent, d.send())
			d.v++
			if !done {
				d.hear(sent[0], learn.Limit{Name: "requests"})
			}
			d.m.Done(d.now(), sent[0], 1, limit.Success)
			sent = sent[1:]
		}
		for range 1000 {
			d.send()
		}
	}
	d := newDriver(t, Options{})
	d.m.Done(d.now(), d.send(), 1, limit.Failed)
	d.send()
	d.waits(-1, -1) // nobody has answered
}

func TestWhatIsNeverSentIsGivenBack(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.m.Give(d.now(), d.send(), 1)
	sent := d.send()
	d.v++
	d.m.Postpone(d.now(), sent, 1)
	sent = d.now()
	d.v++
	d.hear(sent, d.says(2, 1, 60))
	d.m.Give(d.now(), d.send(), 1)
	d.send()
	d.waits(50, 60)
}

func TestAnAnswerBoundsWhatIsLeft(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.hear(d.send(), d.says(100, 99, 600))
	l := d.m.(*Ledger)
	l.allowance.flights.maxInFlight = 0
	left := func(want int64) {
		t.Helper()
		if got := l.Left(d.now()); got != want {
			t.Fatalf("%d left, want %d", got, want)
		}
	}
	left(99)
	a, at := d.send(), d.v
	d.v += 0.1
	b := d.send()
	d.v += 0.1
	c := d.send()
	left(96)
	d.v += 0.1
	said := func(left float64) learn.Limit { return d.says(100, left, 600-(d.v-at)) }
	if news := d.hear(c, said(96)); news != (Surprise{}) {
		t.Fatalf("%+v", news)
	}
	left(96)
	d.hear(a, said(98)) // out of order
	left(96)
	d.hear(b, said(97))
	left(96)
	if news := d.hear(d.send(), said(90)); news.Foreign != 5 {
		t.Fatalf("somebody else has used 5: %+v", news)
	}
	left(88) // and a reserve is kept now
	d.hear(d.send(), said(89))
	left(87)
	if news := d.hear(d.send(), said(95)); !news.Higher {
		t.Fatalf("more is left than there was: %+v", news)
	}
}

func TestAReserveStaysUnspent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reserve Reserve
		want    int64
	}{{Reserve{}, 9}, {Reserve{Units: 3}, 6}, {Reserve{Percent: 20}, 7}, {Reserve{Units: 1, Percent: 40}, 5}, {Reserve{Units: 100}, 0}, {Reserve{Percent: math.NaN()}, 9}} {
		d := newDriver(t, Options{Reserve: c.reserve})
		d.hear(d.send(), d.says(10, 9, 60))
		d.m.(*Ledger).allowance.flights.maxInFlight = 0
		if got := d.m.Left(d.now()); got != c.want {
			t.Errorf("%+v leaves %d, want %d", c.reserve, got, c.want)
		}
	}
}

func TestAWindowIsOverAtItsResetAndAMargin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resolution  time.Duration
		relative    bool
		least, most float64
	}{
		"exact":          {0, true, 60, 60.1},
		"whole seconds":  {time.Second, true, 61, 61.1},
		"epoch":          {time.Second, false, 63, 63.1},
		"epoch, minutes": {time.Minute, false, 122, 122.1},
	} {
		d := newDriver(t, Options{})
		said := d.says(2, 0, 60)
		said.Resolution, said.Relative = c.resolution, c.relative
		d.hear(d.send(), said)
		if w := d.wait(); w < c.least || w > c.most {
			t.Errorf("%s: waits for %v", name, w)
			continue
		}
		d.v += d.wait()
		d.send()
		d.v += 0.1
		d.waits(-1, -1) // a probe
	}
}

func TestARefusalIsWaitedFor(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	for name, c := range map[string]struct {
		said        func(*driver) learn.Limit
		retry       float64
		least, most float64
	}{
		"retry after":           {func(d *driver) learn.Limit { return learn.Limit{} }, 30, 30, 30},
		"retry at once":         {func(d *driver) learn.Limit { return learn.Limit{} }, 0, 1, 1},
		"retry before":          {func(d *driver) learn.Limit { return learn.Limit{} }, -100, 1, 1},
		"retry in a year":       {func(d *driver) learn.Limit { return learn.Limit{} }, 365 * 86400, 86400, 86400},
		"at the reset":          {func(d *driver) learn.Limit { return d.says(10, 0, 42) }, none, 42, 42.1},
		"at the retry, no less": {func(d *driver) learn.Limit { return d.says(10, 0, 42) }, 7, 7, 7},
		"nothing said":          {func(d *driver) learn.Limit { return learn.Limit{} }, none, 1, 1},
		"reset at once":         {func(d *driver) learn.Limit { return d.says(10, 0, 0) }, none, 1, 1},
		"limit 0":               {func(d *driver) learn.Limit { return learn.Limit{Limit: some(0)} }, none, 1, 1},
	} {
		d := newDriver(t, Options{})
		d.hear(d.send(), d.says(10, 9, 300))
		sent := d.send()
		d.v += 0.2
		d.refused(sent, c.said(d), c.retry)
		if w := d.wait(); w < c.least-1e-6 || w > c.most+1e-6 {
			t.Errorf("%s: waits for %v", name, w)
			continue
		}
		d.v += d.wait()
		d.send()
		d.waits(-1, -1) // a probe
	}
}

func TestRefusalsInARowAreWaitedForLonger(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	for n, want := range []float64{1, 2, 4, 8, 16, 32, 60, 60} {
		d.v += 0.001
		sent := d.send()
		d.refused(sent, learn.Limit{}, math.NaN())
		if w := d.wait(); math.Abs(w-want) > 1e-6 {
			t.Fatalf("after %d refusals it waits for %v s", n+1, w)
		}
		d.v += d.wait()
	}
	d.hear(d.send(), learn.Limit{Limit: some(10), Remaining: some(9)})
	d.v++
	d.refused(d.send(), learn.Limit{}, math.NaN())
	d.waits(1, 1)
}

// Those that were under way when the first was refused do not make it worse.
func TestABurstOfRefusalsIsOneRefusal(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.hear(d.send(), d.says(100, 99, 300))
	d.m.(*Ledger).allowance.flights.maxInFlight = 0
	var sent []time.Time
	for range 20 {
		d.v += 0.001
		sent = append(sent, d.send())
	}
	for _, at := range sent {
		d.v += 0.001
		d.refused(at, learn.Limit{}, math.NaN())
	}
	d.waits(0.9, 1)
}

func TestALimitOfZeroIsNone(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.hear(d.send(), learn.Limit{Limit: some(0), Remaining: some(0)})
	for range 100 {
		d.send()
	}
}

func TestAnotherLimitReplacesTheOld(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.hear(d.send(), d.says(100, 99, 300))
	d.m.(*Ledger).allowance.flights.maxInFlight = 0
	d.hear(d.send(), d.says(1000, 998, 300))
	if left := d.m.Left(d.now()); left != 998 {
		t.Fatalf("%d left of 1000", left)
	}
	d.hear(d.send(), d.says(50, 47, 300))
	if left := d.m.Left(d.now()); left != 47 {
		t.Fatalf("%d left of 50", left)
	}
}

// A second answer that counts as fewer in flight makes room.
func TestAtMostSoManyAreInFlight(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{Unit: learn.Concurrent})
	d.hear(d.send(), learn.Limit{Limit: some(3), Remaining: some(2)})
	a := d.send()
	d.v += 0.1
	d.send()
	d.send()
	d.waits(-1, -1)
	d.m.(*Ledger).Update(d.now(), Answer{Sent: a, Units: 1, Limit: learn.Limit{Limit: some(3)}})
	d.waits(-1, -1) // its body is under way
	d.m.Done(d.now(), a, 1, limit.Success)
	d.send()
	d.waits(-1, -1)
}

// An announced answer of what nobody had taken for this limit.
func TestALimitThatWasNotExpectedIsHeard(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.v = 1
	d.m.(*Ledger).Update(d.now(), Answer{Sent: seconds(0.5), Limit: d.says(10, 4, 60)})
	d.m.(*Ledger).allowance.flights.maxInFlight = 0
	for range 4 {
		d.send()
	}
	d.waits(59, 61)
}

func TestTheNextUnitIsTriedWhenItIsSaidToBeThere(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	said := d.says(10, 0, 600)
	said.Next = seconds(d.v + 20)
	d.hear(d.send(), said)
	d.waits(19, 21)
}

func TestALedgerThatIsRestoredGoesOn(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	for n := range 7 {
		d.v += 0.1
		d.hear(d.send(), d.says(10, 9-float64(n), 60-d.v))
	}
	state := d.m.State()
	left := d.m.Left(d.now())
	for _, later := range []float64{0, 20, 70, -1000} {
		e := &driver{t: t, m: New(Options{}), v: d.v + later}
		if err := e.m.Restore(e.now(), state); err != nil {
			t.Fatal(err)
		}
		switch got := e.m.Left(e.now()); {
		case later == 70 && got != 1: // a probe
			t.Errorf("%d left in the next window", got)
		case got != 1: // it is tried alone what is left
			t.Errorf("%v s later %d left at once", later, got)
		}
		if later == 70 {
			continue
		}
		e.hear(e.send(), d.says(10, 2, 60-d.v-max(later, 0)))
		if got := e.m.Left(e.now()); got != left-1 {
			t.Errorf("%v s later %d left, there were %d", later, got, left)
		}
	}
	if New(Options{}).Restore(d.now(), nil) != nil {
		t.Error("no state is none of a ledger that has heard nothing")
	}
}

// TestAllIsLeftAfterTheEndOfAWindowThoughNothingIsSent: no answer of the new window is needed, and where no end is
// known, nobody knows what is left.
func TestAllIsLeftAfterTheEndOfAWindowThoughNothingIsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said    func(d *driver, left float64) learn.Limit
		restart bool
		want    int64
	}{
		"an end is announced": {said: func(d *driver, left float64) learn.Limit { return d.says(5, left, 5-d.v) }, want: 5},
		"after a restart":     {said: func(d *driver, left float64) learn.Limit { return d.says(5, left, 5-d.v) }, restart: true, want: 5},
		"a length is announced": {said: func(d *driver, left float64) learn.Limit {
			said := d.says(5, left, 0)
			said.Window, said.Reset = 5*time.Second, time.Time{}
			return said
		}, want: 5},
		"no end": {said: func(d *driver, left float64) learn.Limit {
			said := d.says(5, left, 0)
			said.Reset = time.Time{}
			return said
		}, want: -1},
	} {
		d := newDriver(t, Options{})
		for left := 4.0; left >= 0; left-- {
			d.hear(d.send(), c.said(d, left))
			d.v += 0.1
		}
		l := d.m.(*Ledger)
		if s := l.Status(d.now()); s.Limit != 5 || s.Remaining != 0 {
			t.Errorf("%s: at first %+v", name, s)
		}
		if c.restart {
			state := l.State()
			if l = New(Options{}); l.Restore(d.now(), state) != nil {
				t.Fatal("the state is not read")
			}
		}
		d.v += 1000
		if s := l.Status(d.now()); s.Remaining != c.want {
			t.Errorf("%s: after its end %+v, want %d left", name, s, c.want)
		}
	}
}

func TestStatusTellsHowItStands(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	l := d.m.(*Ledger)
	state := func(want string) Status {
		t.Helper()
		s := l.Status(d.now())
		if s.State != want {
			t.Fatalf("%+v, want %s", s, want)
		}
		return s
	}
	if s := state("unknown"); s.Limit != -1 || s.Remaining != -1 {
		t.Fatalf("%+v", s)
	}
	said := d.says(2, 1, 60)
	said.Window = time.Minute
	d.hear(d.send(), said)
	if s := state("open"); s.Limit != 2 || s.Remaining != 1 || s.Window != time.Minute || s.Own != 1 {
		t.Fatalf("%+v", s)
	}
	d.send()
	if s := state("spent"); !s.Reset.Equal(seconds(60)) || s.Remaining != 0 {
		t.Fatalf("%+v", s)
	}
	d.v = 61
	state("probing")
	d.v = 5000
	state("probing")
}
