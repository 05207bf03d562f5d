package limit_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// began is when the clocks of these tests begin. It has no monotonic reading, so
// they can go back.
var began = time.Date(2026, time.March, 28, 22, 30, 0, 0, time.UTC)

func build(t testing.TB, s limit.Spec) limit.Meter {
	t.Helper()
	m, err := limit.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// event is something taken, on a clock that never goes back: what counts is the
// time that passed, not what the clock showed.
type event struct {
	id    int
	at    time.Duration
	now   time.Time
	n     int64         // as it turned out
	taken int64         // as it was estimated
	open  bool          // neither settled nor given back
	done  time.Duration // when it was not open any more
	gone  bool          // given back
}

// history drives one meter through a random life and remembers what was sent.
type history struct {
	m       limit.Meter
	spec    limit.Spec
	now     time.Time
	elapsed time.Duration
	events  []*event
	back    bool // the clock has gone back
}

// live is a random life. check is called after each take. It only makes requests
// that cost what was estimated or less when exact is set, so that the promise holds
// to the unit.
func live(t *rapid.T, spec limit.Spec, exact bool, check func(*history, *event)) *history {
	m, err := limit.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{m: m, spec: spec, now: began}
	unit := spec.Window
	if spec.Traits().Calendar {
		unit = 5 * 24 * time.Hour
	} else if unit == 0 {
		unit = time.Hour
	}
	steps := rapid.IntRange(1, 60).Draw(t, "steps")
	for range steps {
		switch rapid.IntRange(0, 12).Draw(t, "do") {
		case 0, 1, 2:
			h.pass(time.Duration(rapid.Int64Range(0, int64(unit)/4).Draw(t, "pass")))
		case 3:
			h.pass(time.Duration(rapid.Int64Range(0, 3*int64(unit)).Draw(t, "leap")))
		case 4: // the clock goes back
			back := time.Duration(rapid.Int64Range(1, 3*int64(unit)).Draw(t, "back"))
			if spec.Traits().Returns == limit.AfterFirstUse {
				// Its windows follow the clock that it has seen, so it sees this.
				h.m.Left(h.now)
				h.m.Left(h.now.Add(-back))
			}
			h.now, h.back = h.now.Add(-back), true
		case 5, 6, 7, 8:
			h.try(t, rapid.Int64Range(1, max(spec.Amount, 8)+1).Draw(t, "n"), check)
		case 9: // never sent
			if e := h.pick(t); e != nil && !h.tooLate(e) {
				h.m.Give(h.now, e.now, e.taken)
				e.open, e.gone, e.n, e.done = false, true, 0, h.elapsed
			}
		case 10: // the true cost
			if e := h.pick(t); e != nil {
				most := e.taken
				if !exact {
					most *= 3
				}
				actual := rapid.Int64Range(0, most).Draw(t, "actual")
				h.m.Settle(h.now, e.now, e.taken, actual)
				e.open, e.n, e.done = false, actual, h.elapsed
				h.m.Done(h.now, e.now, min(e.taken, actual), limit.Success)
			}
		case 11:
			h.reload(t)
		case 12: // to about where requests in flight matter
			d := time.Duration(rapid.Int64Range(0, 2*int64(slack(spec))).Draw(t, "moment"))
			if traits := spec.Traits(); traits.Returns == limit.AtEdges && !traits.Calendar {
				edge := aligned(spec, h.now.Add(slack(spec))).Add(spec.Window - slack(spec))
				d += edge.Sub(h.now)
			}
			h.pass(d)
		}
	}
	return h
}

func (h *history) pass(d time.Duration) {
	h.now = h.now.Add(d)
	h.elapsed += d
}

func (h *history) pick(t *rapid.T) *event {
	var open []*event
	for _, e := range h.events {
		if e.open {
			open = append(open, e)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
}

// tooLate tells whether something was sent in the belief that a request had opened a
// window that it never did.
func (h *history) tooLate(e *event) bool {
	return h.spec.Traits().Returns == limit.AfterFirstUse && len(h.events) > 0 &&
		h.events[len(h.events)-1].at >= e.at+h.spec.Window
}

// try takes n when the meter says at once, or goes to where it says.
func (h *history) try(t *rapid.T, n int64, check func(*history, *event)) {
	at, ok := h.m.When(h.now, n)
	flying := h.flying()
	if !ok {
		return
	}
	if at.After(h.now) {
		if at.Equal(limit.Unknown) || rapid.Bool().Draw(t, "leave") {
			return
		}
		if d := at.Sub(h.now); d > 100*24*time.Hour*365 {
			return
		} else {
			early := h.now.Add(d - 1)
			if sooner, _ := h.m.When(early, n); !sooner.After(early) && !kinds[h.spec.As].floats {
				t.Fatalf("%v says %v, and allows %d before", h.spec, at, n)
			}
			h.pass(d)
		}
		for {
			again, _ := h.m.When(h.now, n)
			if !again.After(h.now) {
				break
			}
			if !flying && !h.back {
				t.Fatalf("%v says %v, and then %v", h.spec, at, again)
			}
			if again.Equal(limit.Unknown) {
				return
			}
			h.pass(again.Sub(h.now)) // what is in flight was not done then
			at = again
		}
	}
	if left := h.m.Left(h.now); left < n && !h.spec.Traits().Adapts {
		t.Fatalf("%v has %d left and allows %d", h.spec, left, n)
	}
	h.m.Take(h.now, n)
	e := &event{id: len(h.events), at: h.elapsed, now: h.now, n: n, taken: n, open: true}
	h.events = append(h.events, e)
	check(h, e)
}

// reload stores the meter and reads it back, as a new process does, or another one while the
// first goes on: what was in flight is not settled any more, and may still arrive.
func (h *history) reload(t *rapid.T) {
	fresh, err := limit.New(h.spec)
	if err != nil {
		t.Fatal(err)
	}
	if h.spec.Traits().Returns == limit.AfterFirstUse {
		h.m.Left(h.now)
	}
	if err := fresh.Restore(h.now, h.m.State()); err != nil {
		t.Fatalf("restoring %v: %v", h.spec, err)
	}
	h.m = fresh
	for _, e := range h.events {
		if e.open {
			e.open, e.done = false, e.at+slack(h.spec)
		}
	}
}

// flying tells whether anything may not have arrived.
func (h *history) flying() bool {
	for _, e := range h.events {
		if e.open || e.done > h.elapsed {
			return true
		}
	}
	return false
}

// slack is how long after it was taken a request may arrive, at most.
func slack(s limit.Spec) time.Duration {
	w := s.Window
	switch s.Period {
	case limit.Day:
		w = 25 * time.Hour
	case limit.Week:
		w = (7*24 + 1) * time.Hour
	case limit.Month:
		w = (31*24 + 1) * time.Hour
	}
	return min(max(w/128, 5*time.Millisecond), w/8)
}

// latest is how long after it was taken a request has arrived, at most.
func (h *history) latest(e *event) time.Duration {
	if e.open {
		return slack(h.spec)
	}
	return min(e.done-e.at, slack(h.spec))
}

// sum is what was taken in [from, to), as it turned out by now.
func (h *history) sum(from, to time.Duration) int64 {
	n := int64(0)
	for _, e := range h.events {
		if e.at >= from && e.at < to {
			n += e.n
		}
	}
	return n
}

func span(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{7, time.Millisecond, time.Second, 15 * time.Minute, 24 * time.Hour}).Draw(t, "window")
}

// spec is a random limit of a kind.
func spec(t *rapid.T, as limit.As) limit.Spec {
	s := limit.Spec{As: as, Amount: rapid.Int64Range(1, 20).Draw(t, "amount"), Window: span(t)}
	switch traits := as.Traits(); {
	case traits.Burst:
		s.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
	case traits.Calendar:
		s.Window = 0
		s.Period = rapid.SampledFrom([]string{limit.Day, limit.Week, limit.Month}).Draw(t, "period")
	case traits.InFlight:
		s.Window = 0
	case traits.Adapts:
		s.Amount, s.Window, s.Min, s.Max = 0, time.Minute, 0.2, 20
	}
	return s
}

func TestEveryKindKeepsItsLimit(t *testing.T) {
	for _, s := range all {
		as, row := s.As, kinds[s.As]
		t.Run(string(as), rapid.MakeCheck(func(t *rapid.T) {
			s := spec(t, as)
			live(t, s, true, func(h *history, e *event) {
				if wrong := row.keeps(s, h, e); wrong != "" {
					t.Fatal(wrong)
				}
			})
		}))
	}
}

// keepsAnyWindow: no more than the amount in any window.
func keepsAnyWindow(s limit.Spec, h *history, e *event) string {
	if n := h.sum(e.at-s.Window+1, e.at+1); n > s.Amount {
		return fmt.Sprintf("%d in the window that ends at %v, of %d", n, e.at, s.Amount)
	}
	return ""
}

// arrived is what may have arrived in [from, to).
func (h *history) arrived(from, to time.Duration) int64 {
	n := int64(0)
	for _, e := range h.events {
		if e.at+h.latest(e) >= from && e.at < to {
			n += e.n
		}
	}
	return n
}

// The server counts what arrives, at any time while it is in flight.
func TestRollingNeverAllowsMoreInAnyWindowWheneverItArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(t, limit.Rolling)
		live(t, s, true, func(h *history, e *event) {
			if n := h.arrived(e.at-s.Window+1, e.at+1); n > s.Amount {
				t.Fatalf("%d may arrive in the window that ends at %v, of %d", n, e.at, s.Amount)
			}
		})
	})
}

func TestRollingNeverWaitsWhenItCouldGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(t, limit.Rolling)
		h := live(t, s, true, func(*history, *event) {})
		if h.back {
			return // what is given back is kept then, where it could mean two moments
		}
		n := rapid.Int64Range(1, s.Amount).Draw(t, "n")
		at, _ := h.m.When(h.now, n)
		if could := h.arrived(h.elapsed-s.Window+1, h.elapsed+1)+n <= s.Amount; could == at.After(h.now) {
			t.Fatalf("could %d go: %v, says %v at %v", n, could, at, h.now)
		}
	})
}

// What costs more than was estimated is owed: over all of a life no more than one
// window's more is sent than the windows in it allow, once what was found out late
// is paid.
func TestRollingPaysWhatItOwesBeforeAnythingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(t, limit.Rolling)
		live(t, s, false, func(h *history, e *event) {
			windows := int64(e.at/s.Window) + 1
			if n := h.sum(0, e.at+1); n > windows*s.Amount {
				t.Fatalf("%d in %d windows of %d", n, windows, s.Amount)
			}
		})
	})
}

// keepsAlignedWindows: no more than the amount may arrive in a window that is aligned to the clock or the
// calendar, unless the clock goes back.
func keepsAlignedWindows(s limit.Spec, h *history, e *event) string {
	if h.back {
		return ""
	}
	n := int64(0)
	for _, other := range h.events {
		start := aligned(s, e.now)
		last := other.now.Add(h.latest(other))
		if aligned(s, other.now).Equal(start) || other.now.Before(start) && !last.Before(start) {
			n += other.n // it may have arrived in this window
		}
	}
	if n > s.Amount {
		return fmt.Sprintf("%d in the window that begins at %v, of %d", n, aligned(s, e.now), s.Amount)
	}
	return ""
}

// Whatever the clock does, two windows' worth takes at least the time of one window
// to go, and three takes two: no window is shorter than its width.
func TestFixedOpensNoWindowEarlyWhenItsClockGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(t, limit.Fixed)
		live(t, s, true, func(h *history, e *event) {
			if n := h.sum(e.at-s.Window+1, e.at+1); n > 2*s.Amount {
				t.Fatalf("%d in %v, of %d", n, s.Window, s.Amount)
			}
		})
	})
}

// aligned is when the window of a limit began, found another way than it does.
func aligned(s limit.Spec, now time.Time) time.Time {
	year, month, day := now.UTC().Date()
	switch s.Period {
	case limit.Day:
	case limit.Week:
		for time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday() != time.Monday {
			day--
		}
	case limit.Month:
		day = 1
	default:
		return time.Unix(0, now.UnixNano()/int64(s.Window)*int64(s.Window))
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// keepsWindowsOfAServer: a server whose windows open with the first request after the last window counts
// no more than the amount of what was sent.
func keepsWindowsOfAServer(s limit.Spec, h *history, _ *event) string {
	opened, used := time.Duration(-1), int64(0)
	for _, e := range h.events {
		if e.gone {
			continue // the server never saw it
		}
		if opened < 0 || e.at >= opened+s.Window {
			opened, used = e.at, 0
		}
		if used += e.n; used > s.Amount {
			return fmt.Sprintf("%d in the window that opened at %v, of %d", used, opened, s.Amount)
		}
	}
	return ""
}

// keepsBurstAndRate: any length of time has at most the burst and what comes back in it.
func keepsBurstAndRate(s limit.Spec, h *history, e *event) string {
	for _, from := range h.events {
		length := e.at - from.at
		allowed := float64(s.Burst) + float64(length)/float64(s.Window)*float64(s.Amount)
		if n := h.sum(from.at, e.at+1); float64(n) > allowed+1e-4 {
			return fmt.Sprintf("%d in %v, allowed %v", n, length, allowed)
		}
	}
	return ""
}

// keepsItsDistance: after n units nothing goes for n intervals.
func keepsItsDistance(s limit.Spec, h *history, e *event) string {
	for _, before := range h.events[:e.id] {
		if gap := e.at - before.at; int64(gap)*s.Amount < before.n*int64(s.Window) {
			return fmt.Sprintf("%v after %d, of %d per %v", gap, before.n, s.Amount, s.Window)
		}
	}
	return ""
}

// keepsInFlight: no more than the amount is in flight.
func keepsInFlight(s limit.Spec, h *history, _ *event) string {
	flying := int64(0)
	for _, e := range h.events {
		if e.open {
			flying += e.taken
		}
	}
	if flying > s.Amount {
		return fmt.Sprintf("%d in flight, of %d", flying, s.Amount)
	}
	return ""
}

// keepsItsMaximum: after n units nothing goes for n/Max seconds.
func keepsItsMaximum(s limit.Spec, h *history, e *event) string {
	if e.id == 0 {
		return ""
	}
	before := h.events[e.id-1]
	if gap := (e.at - before.at).Seconds(); gap < float64(before.n)/s.Max-1e-8 {
		return fmt.Sprintf("%v s after %d", gap, before.n)
	}
	return ""
}
