package ledger

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit/learn"
)

// told hears a report of a window that ends in some seconds.
func (d *driver) told(used int64, in float64) {
	d.m.(*Ledger).AcceptReport(d.now(), WindowReport{Limit: 100, Used: used, Reset: seconds(d.v + in)})
}

func (d *driver) left(want int64) {
	d.t.Helper()
	if got := d.m.Left(d.now()); got != want {
		d.t.Fatalf("at %v there are %d left, want %d", d.v, got, want)
	}
}

// begun is a ledger that has heard of a window of 60 s, that ends at 60.
func begun(t *testing.T) *driver {
	d := newDriver(t, Options{})
	for n := range 20 {
		said := d.says(100, 99-float64(n), 60-d.v)
		said.Window = time.Minute
		d.hear(d.send(), said)
		d.v += 0.1
	}
	d.m.(*Ledger).allowance.flights.maxInFlight = 0
	d.left(80)
	return d
}

func TestALedgerTellsWhatItHasHeard(t *testing.T) {
	t.Parallel()
	d := begun(t)
	l := d.m.(*Ledger)
	d.send() // which nobody has counted yet
	report, ok := l.Report(d.now())
	if !ok || report.Limit != 100 || report.Used != 20 || report.Window != time.Minute || report.Reset.Sub(seconds(60)).Abs() > time.Millisecond {
		t.Fatalf("%+v, %v", report, ok)
	}
	d.v = 61
	if report, ok := l.Report(d.now()); ok {
		t.Fatalf("of a window that is over: %+v", report)
	}
	for name, said := range map[string]learn.Limit{
		"nothing": {},
		"no end":  {Limit: some(10), Remaining: some(9), Window: time.Minute},
		"a rate":  {Limit: some(10), Remaining: some(9), Rate: 1},
		"no more": {Limit: some(10), Reset: seconds(60)},
	} {
		d := newDriver(t, Options{})
		d.hear(d.send(), said)
		if report, ok := d.m.(*Ledger).Report(d.now()); ok {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

func TestWhatSomebodyElseSawIsNotLeft(t *testing.T) {
	t.Parallel()
	d := begun(t)
	d.told(90, 58.5) // half a second off
	d.left(10)
	d.told(50, 58)
	d.told(90, 58)
	d.left(10)
	d.told(99, 300) // no window that could be
	d.told(99, -10)
	d.left(10)
	d.send()
	d.told(90, 58)
	d.left(9)
	if news := d.hear(d.now(), d.says(100, 9, 60-d.v)); news != (Surprise{}) {
		t.Fatalf("what was told is somebody else's use: %+v", news)
	}
	d.left(9)
	// Another was right, or this one is wrong: what the server says counts.
	d.v += 1
	sent := d.send()
	d.v += 1
	if news := d.hear(sent, d.says(100, 40, 60-d.v)); news.Higher {
		t.Fatalf("%+v", news)
	}
	d.left(40)
}

func TestANewWindowThatSomebodyElseSawIsOurs(t *testing.T) {
	t.Parallel()
	d := begun(t)
	d.told(100, 58)
	d.left(0)
	d.told(30, 118) // ours is not over
	d.left(0)
	d.v = 60.5
	d.told(30, 59.5)
	d.left(70)
	d.told(30, 59.5)
	d.told(100, 1) // of the one before, late
	d.left(70)
	d.send()
	d.told(20, 59.5)
	d.left(69)
	d.v = 125
	d.left(1) // a probe
	d.told(30, 1)
	d.left(1)
}

// An instance that has just begun asks nothing of a window where nothing is left.
func TestTheFirstOfASpentWindowWaits(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.told(99, 50)
	d.left(1)
	d.told(100, 50)
	d.waits(50, 53)
	d.told(10, 50)
	d.waits(50, 53)
}

// Whatever is told in whatever order, no more is left by it while a window lasts, and
// it makes no difference how often it is told, or which is told first.
func TestReportsOnlyTighten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := &fixedOrigin{
			limit: float64(rapid.IntRange(1, 100).Draw(t, "limit")), window: float64(rapid.SampledFrom([]int{10, 60, 900}).Draw(t, "window")),
			resolution: rapid.SampledFrom([]float64{0, 1}).Draw(t, "resolution"), relative: rapid.Bool().Draw(t, "relative"),
			aligned: rapid.Bool().Draw(t, "aligned"),
		}
		s := run{origin: o, meter: New(Options{}), begin: 200_000, length: o.window * rapid.Float64Range(0, 3).Draw(t, "lives")}
		travel(t, &s)
		s.do()
		l := s.meter.(*Ledger)
		now := seconds(s.begin + s.length + 3)
		reports := make([]WindowReport, rapid.IntRange(1, 4).Draw(t, "reports"))
		for n := range reports {
			reports[n] = WindowReport{
				Limit: rapid.SampledFrom([]int64{0, int64(o.limit), int64(o.limit) + 5, -1, maxAmount * 4}).Draw(t, "of"),
				Used:  rapid.Int64Range(-1, int64(o.limit)+2).Draw(t, "used"),
				Reset: seconds(o.start + o.window + rapid.Float64Range(-3, 3).Draw(t, "off")),
			}
		}
		other := *l
		was, over := l.Left(now), l.allowance.window.reset == 0 || l.allowance.window.reset <= l.clock.At(now)
		for _, one := range reports {
			before := l.Left(now)
			l.AcceptReport(now, one)
			after := l.Left(now)
			if after > before && !over {
				t.Fatalf("%d are left, there were %d", after, before)
			}
			l.AcceptReport(now, one)
			if again := l.Left(now); again != after {
				t.Fatalf("%d are left when it is told again, there were %d", again, after)
			}
		}
		for n := range reports {
			other.AcceptReport(now, reports[len(reports)-1-n])
		}
		if a, b := l.Left(now), other.Left(now); a != b && !over {
			t.Fatalf("%d are left, and %d in another order, of %d", a, b, was)
		}
		if at, ok := l.When(now, 1); ok && at.Sub(now) > time.Duration((o.window+10)*1e9) && at.Sub(now) < 24*365*time.Hour {
			t.Fatalf("it waits until %v", at)
		}
	})
}

func TestWhatIsLeftIsToldInUnitsAndTheWindowWhereAnEndIsNamed(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{Unit: learn.Tokens})
	for n := range 20 {
		d.hear(d.send(), d.says(6000, 6000-300*float64(n+1)/2, 10-d.v))
		d.v += 0.1
	}
	l := d.m.(*Ledger)
	if rest, goes := l.Rest(d.now()), l.Left(d.now()); rest != 3000 || goes >= rest/10 {
		t.Errorf("%d tokens are left, for %d requests", rest, goes)
	}
	if length := l.GuessedWindow(); length != 0 {
		t.Errorf("its window is taken to last %v, though each answer names its end", length)
	}
}
