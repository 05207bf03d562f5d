package limit_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// changed is a limit of a kind that has a window.
func changed(t *rapid.T, name string) limit.Spec {
	s := limit.Spec{
		As:     rapid.SampledFrom(windowed).Draw(t, name),
		Amount: rapid.Int64Range(1, 40).Draw(t, name+" amount"),
		Window: rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour, 36 * time.Hour}).Draw(t, name+" window"),
	}
	if s.Traits().Calendar {
		s.Window, s.Period = 0, rapid.SampledFrom([]string{limit.Day, limit.Week, limit.Month}).Draw(t, name+" period")
		s.Location = rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("east", 11*3600), time.FixedZone("west", -9*3600)}).Draw(t, name+" place")
	}
	return s
}

// life uses a meter for a while.
func life(t *rapid.T, m limit.Meter, now time.Time, sent []event, steps int) (time.Time, []event) {
	scale := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t, "scale")
	for range steps {
		now = now.Add(time.Duration(rapid.Int64Range(0, int64(scale)).Draw(t, "later")))
		n := rapid.Int64Range(1, 3).Draw(t, "n")
		if at, ok := m.When(now, n); !ok || at.After(now) {
			continue
		}
		m.Take(now, n)
		if rapid.IntRange(0, 9).Draw(t, "given back") == 0 {
			m.Give(now, now, n)
			continue
		}
		m.Done(now, now, n, limit.Success)
		sent = append(sent, event{now: now, n: n})
	}
	return now, sent
}

// over is by how much the new limit is exceeded in windows that contain the change, by
// what went after it: what had gone before was right by the old limit.
func over(s limit.Spec, sent []event, change time.Time) string {
	sum := func(from, to time.Time) (before, after int64) {
		for _, e := range sent {
			switch {
			case e.now.Before(from) || !e.now.Before(to):
			case e.now.After(change):
				after += e.n
			default:
				before += e.n
			}
		}
		return before, after
	}
	for _, e := range sent {
		from, to := e.now, e.now.Add(s.Window)
		switch traits := s.Traits(); {
		case traits.Calendar:
			from, to = period(s, e.now)
		case traits.Returns == limit.AtEdges:
			from = time.Unix(0, e.now.UnixNano()/int64(s.Window)*int64(s.Window))
			to = from.Add(s.Window)
		}
		if from.After(change) || to.Before(change) {
			continue
		}
		before, after := sum(from, to)
		most := max(s.Amount-before, 0)
		if s.Traits().Returns == limit.Continuously {
			// At once, and what a window brings; or what comes in after the change.
			brings := int64(float64(s.Amount) * float64(to.Sub(change)) / float64(s.Window))
			most = max(2*s.Amount-before, brings+1)
		}
		if after > most {
			return fmt.Sprintf("%d went before and %d after the change of %d between %v and %v", before, after, s.Amount, from, to)
		}
	}
	return ""
}

// period is the calendar's period of a time.
func period(s limit.Spec, at time.Time) (from, to time.Time) {
	at = at.In(s.Location)
	year, month, day := at.Date()
	switch s.Period {
	case limit.Day:
		return time.Date(year, month, day, 0, 0, 0, 0, s.Location), time.Date(year, month, day+1, 0, 0, 0, 0, s.Location)
	case limit.Week:
		day -= int(at.Weekday()+6) % 7
		return time.Date(year, month, day, 0, 0, 0, 0, s.Location), time.Date(year, month, day+7, 0, 0, 0, 0, s.Location)
	}
	return time.Date(year, month, 1, 0, 0, 0, 0, s.Location), time.Date(year, month+1, 1, 0, 0, 0, 0, s.Location)
}

// Whatever a limit is changed into (but first-use into first-use, whose window is known
// and goes on), what was spent within the new window's length stays
// spent: by a meter that is moved, and by one that is made of a stored one's past.
func TestWhatWasSpentStaysSpentWhateverALimitIsChangedInto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := changed(t, "from"), changed(t, "to")
		m, err := limit.New(from)
		if err != nil {
			t.Fatal(err)
		}
		now, sent := life(t, m, began.Add(time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "begins"))), nil, rapid.IntRange(0, 80).Draw(t, "before"))
		now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "rest")))
		if rapid.Bool().Draw(t, "stored") {
			stored, err := limit.New(from)
			if err == nil {
				err = stored.Restore(now, m.State())
			}
			if err != nil {
				t.Fatal(err)
			}
			if m, err = limit.Carry(now, limit.PastOf(now, stored), to); err != nil {
				t.Fatal(err)
			}
		} else if m, err = limit.Move(now, m, to); err != nil {
			t.Fatal(err)
		}
		change := now
		_, sent = life(t, m, now.Add(time.Nanosecond), sent, 80)
		if wrong := over(to, sent, change); wrong != "" && (from.Traits().Returns != limit.AfterFirstUse || to.As != from.As) {
			t.Fatalf("%+v to %+v at %v: %s", from, to, change, wrong)
		}
		if err := func() error { n, _ := limit.New(to); return n.Restore(now, m.State()) }(); err != nil {
			t.Fatal(err)
		}
	})
}

// Ten of ten are used, and the limit is changed: nothing more goes until they are out of
// the new window.
func TestAUsedLimitThatIsChangedIsUsed(t *testing.T) {
	at := time.Date(2026, time.March, 28, 12, 0, 30, 0, time.UTC)
	for _, from := range windowed {
		for _, to := range windowed {
			make := func(as limit.As, window time.Duration) limit.Spec {
				s := limit.Spec{As: as, Amount: 10, Window: window}
				if as.Traits().Calendar {
					s.Window, s.Period = 0, limit.Day
				}
				return s
			}
			m, now := build(t, make(from, time.Second)), at
			for used := 0; used < 10; {
				when, _ := m.When(now, 1)
				if now = later(now, when); !when.After(now) {
					m.Take(now, 1)
					m.Done(now, now, 1, limit.Success)
					used++
				}
			}
			now = now.Add(5 * time.Second) // the old window is over
			moved, err := limit.Move(now, m, make(to, time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			left := moved.Left(now)
			if spaced := to.Traits().Spaced; spaced && left > 0 || !spaced && left != 0 {
				t.Errorf("from %s to %s: %d are left", from, to, left)
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Of an idle limit nothing is used, whatever it is changed into.
func TestAnUnusedLimitThatIsChangedIsUnused(t *testing.T) {
	for _, from := range windowed {
		for _, to := range windowed {
			s := func(as limit.As) limit.Spec {
				if as.Traits().Calendar {
					return limit.Spec{As: as, Amount: 10, Period: limit.Month}
				}
				return limit.Spec{As: as, Amount: 10, Window: time.Minute}
			}
			moved, err := limit.Move(began, build(t, s(from)), s(to))
			if err != nil {
				t.Fatal(err)
			}
			if left := moved.Left(began); left != 10 || !moved.Idle(began) {
				t.Errorf("from %s to %s: %d are left", from, to, left)
			}
		}
	}
}

// A window of first-use begins when its first request is sent, which may be after it was taken. A
// server that counts from then would refuse what goes before the end.
func TestAChangedFirstUseKeepsTheEndOfItsWindow(t *testing.T) {
	m := build(t, limit.Spec{As: limit.FirstUse, Amount: 2, Window: 10 * time.Second})
	sent := began.Add(time.Second)
	m.Take(began, 1)
	m.Postpone(sent, began, 1)
	m, err := limit.Move(sent.Add(time.Second), m, limit.Spec{As: limit.FirstUse, Amount: 1, Window: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := m.When(sent.Add(2*time.Second), 1); !ok || !at.Equal(sent.Add(8*time.Second)) {
		t.Errorf("the next goes %v after the first was sent", at.Sub(sent))
	}
}

// A request that was taken just before the end of a window may arrive after it, so that it counts in the next window,
// too, whatever meter counts then.
func TestUnitsTakenJustBeforeAWindowCountAfterAChangeInIt(t *testing.T) {
	spec := limit.Spec{As: limit.Fixed, Amount: 36, Window: 5 * time.Second}
	begins := time.Date(2026, 3, 14, 15, 9, 30, 0, time.UTC)
	for _, c := range []struct {
		taken time.Duration // before the window
		left  int64
	}{{10 * time.Millisecond, 35}, {100 * time.Millisecond, 36}} {
		now := begins.Add(20 * time.Millisecond)
		m, err := limit.Carry(now, []limit.Spent{{Ago: now.Sub(begins.Add(-c.taken)), N: 1}}, spec)
		if err != nil {
			t.Fatal(err)
		}
		if left := m.Left(now); left != c.left {
			t.Errorf("%d are left of 36 after one that was taken %v before the window", left, c.taken)
		}
	}
}

// A take counts for longer by half of its age at most, however many came after it.
func TestWhatWasTakenLongAgoIsNotRememberedAsRecent(t *testing.T) {
	began := time.Date(2026, time.March, 10, 6, 0, 0, 0, time.UTC)
	for _, every := range []func(n int) time.Duration{
		func(int) time.Duration { return 10 * time.Second },
		func(n int) time.Duration { return time.Duration(1+n*n%700) * time.Second },
		func(n int) time.Duration { return time.Duration(1+n%50*(n%3)) * 100 * time.Millisecond },
	} {
		m, err := limit.New(limit.Spec{As: limit.Fixed, Amount: 1 << 40, Window: 1000 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		now, times := began, []time.Time{}
		for n := range 2000 {
			now = now.Add(every(n))
			m.Take(now, 1)
			times = append(times, now)
		}
		list := limit.PastOf(now, m)
		for ago := time.Second; ago < now.Sub(began); ago += ago/4 + time.Second {
			most := int64(0)
			for _, at := range times {
				if now.Sub(at) < 2*ago {
					most++
				}
			}
			n := int64(0)
			for _, s := range list {
				if s.Ago < ago {
					n += s.N
				}
			}
			if n > most {
				t.Fatalf("%d were taken in the last %v, and in twice the time %d", n, ago, most)
			}
		}
	}
}

// A server of first-use has a window of its own when another limit becomes one of first-use: nobody knows when it began.
// None of its windows has more than the limit.
func TestAWindowThatBeganBeforeAChangeIsNotExceeded(t *testing.T) {
	for seed := range int64(400) {
		rnd := rand.New(rand.NewSource(seed))
		to := limit.Spec{As: limit.FirstUse, Amount: 1 + rnd.Int63n(12), Window: time.Minute}
		m, now := build(t, limit.Spec{As: limit.Rolling, Amount: to.Amount, Window: time.Minute}), began
		var opened time.Time // the server's window
		count := int64(0)
		use := func(most int64) {
			for range most {
				if at, ok := m.When(now, 1); !ok || at.After(now) {
					return
				}
				m.Take(now, 1)
				m.Done(now, now, 1, limit.Success)
				if !now.Before(opened.Add(to.Window)) {
					opened, count = now, 0
				}
				count++
			}
		}
		for range 1 + rnd.Intn(6) {
			now = now.Add(time.Duration(rnd.Int63n(int64(20 * time.Second))))
			use(1 + rnd.Int63n(to.Amount))
		}
		now = now.Add(time.Duration(rnd.Int63n(int64(to.Window))))
		carried, err := limit.Carry(now, limit.PastOf(now, m), to)
		if err != nil {
			t.Fatal(err)
		}
		m = carried
		for range 60 {
			now = now.Add(time.Duration(rnd.Int63n(int64(20 * time.Second))))
			use(1 + rnd.Int63n(to.Amount))
			if count > to.Amount {
				t.Fatalf("seed %d: %d went in a window of %d that began %v ago", seed, count, to.Amount, now.Sub(opened))
			}
		}
	}
}
