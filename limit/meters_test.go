package limit_test

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// drain takes one at a time, as early as it may, and answers when each went.
func drain(t testing.TB, m limit.Meter, now time.Time, n int) []time.Time {
	t.Helper()
	went := make([]time.Time, 0, n)
	for range n {
		at, ok := m.When(now, 1)
		if !ok {
			t.Fatal("one can never go")
		}
		if at.After(now) {
			now = at
		}
		m.Take(now, 1)
		went = append(went, now)
	}
	return went
}

func TestAHundredAtTenASecondTakeTenSeconds(t *testing.T) {
	for _, s := range []limit.Spec{
		{As: limit.Paced, Amount: 10, Window: time.Second},
		{As: limit.Bucket, Amount: 10, Window: time.Second, Burst: 1},
	} {
		went := drain(t, build(t, s), began, 100)
		if took := went[99].Sub(began); took < 9900*time.Millisecond || took > 9901*time.Millisecond {
			t.Errorf("%s: %v", s.As, took)
		}
	}
}

func TestRollingUsesNearlyAllThatItAllows(t *testing.T) {
	const amount, window, windows = 5000, 10 * time.Second, 20
	m := build(t, limit.Spec{As: limit.Rolling, Amount: amount, Window: window})
	// Spread over the first window and as early as possible after it, so that a
	// slice that ended early would show.
	now, went := began, []time.Time(nil)
	for now.Before(began.Add(windows * window)) {
		at, _ := m.When(now, 1)
		if at.After(now) {
			now = at
			continue
		}
		m.Take(now, 1)
		went = append(went, now)
		if len(went) < amount {
			now = now.Add(window / (amount + 500))
		}
	}
	for i := amount; i < len(went); i++ {
		if gap := went[i].Sub(went[i-amount]); gap < window {
			t.Fatalf("%d in %v", amount+1, gap)
		}
	}
	if len(went) < amount*windows*99/100 {
		t.Errorf("used %d of %d", len(went), amount*windows)
	}
}

func TestANeedLargerThanTheWholeLimitNeverGoes(t *testing.T) {
	for _, s := range all {
		if s.Traits().Adapts {
			continue
		}
		if _, ok := build(t, s).When(began, s.AtOnce()+1); ok {
			t.Errorf("%s: %d of %d may go", s.As, s.AtOnce()+1, s.AtOnce())
		}
	}
}

func TestWhatIsGivenBackAtOnceWasNeverTaken(t *testing.T) {
	for _, s := range all {
		m := build(t, s)
		m.Take(began, 1)
		now := began
		if at, _ := m.When(now, 2); at.After(now) && !at.Equal(limit.Unknown) {
			now = at
		}
		want := m.Left(now)
		m.Take(now, 2)
		m.Give(now, now, 2)
		if got := m.Left(now); got != want && !s.Traits().Adapts {
			t.Errorf("%s: %d left, was %d", s.As, got, want)
		}
		m.Take(now.Add(time.Nanosecond), 2)
		m.Settle(now.Add(2), now.Add(1), 2, 1)
		if got := m.Left(now.Add(2)); s.Depletes() && got != want-1 {
			t.Errorf("%s: %d left after settling at 1, was %d", s.As, got, want)
		}
	}
}

func TestABucketGivesBackNoMoreThanItWouldHaveHeld(t *testing.T) {
	m := build(t, limit.Spec{As: limit.Bucket, Amount: 1, Window: time.Second, Burst: 10})
	m.Take(began, 5)
	later := began.Add(5 * time.Second) // full again
	m.Take(later, 10)
	m.Give(later, began, 5)
	if left := m.Left(later); left != 0 {
		t.Errorf("%d more may go at once after a burst of 10", left)
	}
}

func TestALargeEstimateIsGivenBackWhileABucketIsBusy(t *testing.T) {
	m := build(t, limit.Spec{As: limit.Bucket, Amount: 100, Window: time.Second, Burst: 100})
	now, sent := began, int64(0)
	for i := range 1000 {
		at, _ := m.When(now, 50)
		if at.After(now) {
			now = at
		}
		m.Take(now, 50)
		done := now.Add(time.Duration(i%10) * time.Millisecond)
		m.Settle(done, now, 50, 10)
		now = done
		sent += 10
	}
	if rate := float64(sent) / now.Sub(began).Seconds(); rate < 95 || rate > 102 {
		t.Errorf("%v a second, of 100", rate)
	}
}

func TestQuotaFollowsTheCalendarOfAPlace(t *testing.T) {
	for _, row := range []struct{ name, place, period, at, want string }{
		{"a day of 23 hours", "Europe/Berlin", limit.Day, "2026-03-29T00:30:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"a day of 25 hours", "Europe/Berlin", limit.Day, "2026-10-25T02:30:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"a month", "America/New_York", limit.Month, "2026-03-01T00:00:00-05:00", "2026-04-01T00:00:00-04:00"},
		{"the month after a long one", "UTC", limit.Month, "2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z"},
		{"the end of a year", "Asia/Tokyo", limit.Month, "2026-12-31T23:59:59+09:00", "2027-01-01T00:00:00+09:00"},
		{"a week from a Sunday", "UTC", limit.Week, "2026-03-29T23:00:00Z", "2026-03-30T00:00:00Z"},
		{"a week from a Monday", "UTC", limit.Week, "2026-03-30T00:00:00Z", "2026-04-06T00:00:00Z"},
		{"no midnight", "America/Sao_Paulo", limit.Day, "2018-11-03T23:30:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"two midnights", "America/Havana", limit.Day, "2025-11-01T12:00:00-04:00", "2025-11-02T00:00:00-04:00"},
		{"after two midnights", "America/Havana", limit.Day, "2025-11-02T00:30:00-05:00", "2025-11-03T00:00:00-05:00"},
		{"a day that did not happen", "Pacific/Apia", limit.Day, "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"back to yesterday for an hour", "America/St_Johns", limit.Day, "2006-10-29T00:00:30-02:30", "2006-10-30T00:00:00-03:30"},
	} {
		t.Run(row.name, func(t *testing.T) {
			place, err := time.LoadLocation(row.place)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, row.at)
			if err != nil {
				t.Fatal(err)
			}
			want, err := time.Parse(time.RFC3339, row.want)
			if err != nil {
				t.Fatal(err)
			}
			m := build(t, limit.Spec{As: limit.Quota, Amount: 1, Period: row.period, Location: place})
			m.Take(now, 1)
			if at, _ := m.When(now, 1); !at.Equal(want) {
				t.Errorf("the next period begins at %v, want %v", at.In(place), want.In(place))
			}
		})
	}
}

func TestFixedOwesTheWindowsAfter(t *testing.T) {
	s := limit.Spec{As: limit.Fixed, Amount: 10, Window: time.Minute}
	m := build(t, s)
	m.Take(began, 1)
	m.Settle(began, began, 1, 35)
	// 35 fill three windows and half of the fourth.
	if at, _ := m.When(began, 5); !at.Equal(began.Add(3 * time.Minute)) {
		t.Errorf("5 may go at %v", at)
	}
	if at, _ := m.When(began, 6); !at.Equal(began.Add(4 * time.Minute)) {
		t.Errorf("6 may go at %v", at)
	}
}

func TestAClockThatJumpsBackADayStallsNobodyForADay(t *testing.T) {
	for _, s := range all {
		if s.Traits().InFlight || s.Traits().Calendar {
			continue // they wait for no length of time
		}
		m := build(t, s)
		went := drain(t, m, began, 20)
		now := went[19].Add(-24 * time.Hour)
		at, _ := m.When(now, 1)
		if wait := at.Sub(now); wait > 2*time.Minute {
			t.Errorf("%s: waits %v", s.As, wait)
		}
	}
}

func TestConcurrencyMakesRoomAsRequestsEnd(t *testing.T) {
	m := build(t, limit.Spec{As: limit.Concurrency, Amount: 2})
	m.Take(began, 1)
	m.Take(began, 1)
	if at, ok := m.When(began, 1); !ok || !at.Equal(limit.Unknown) {
		t.Fatalf("a third may go at %v", at)
	}
	m.Done(began, began, 1, limit.Abandoned)
	if at, _ := m.When(began, 1); at.After(began) {
		t.Errorf("after one ended another waits until %v", at)
	}
}

func TestRollingGivesBackNothingThatItsNeighbourTook(t *testing.T) {
	m := build(t, limit.Spec{As: limit.Rolling, Amount: 10, Window: 512 * time.Second})
	first, second := began.Add(200*time.Millisecond), began.Add(700*time.Millisecond)
	m.Take(first, 1)
	m.Take(second, 1)
	now := first.Add(516*time.Second + 1) // the first does not count any more: the margin is four seconds
	m.Give(now, first, 1)
	if left := m.Left(now); left != 9 {
		t.Errorf("%d left of 10 while one counts", left)
	}
}

// Those that have landed do not make it forget when a slow one was sent.
func TestRollingKnowsASlowRequestAmongManyThatAreDone(t *testing.T) {
	m := build(t, limit.Spec{As: limit.Rolling, Amount: 10_000, Window: time.Hour})
	slow := began.Add(400 * time.Millisecond)
	for now := began; now.Before(began.Add(600 * time.Millisecond)); now = now.Add(time.Millisecond) {
		m.Take(now, 1)
		if !now.Equal(slow) {
			m.Done(now, now, 1, limit.Success)
		}
	}
	now := began.Add(time.Minute)
	before := m.Left(now)
	m.Give(now, slow, 1)
	if got := m.Left(now); got != before+1 {
		t.Errorf("%d left, was %d", got, before)
	}
}

func TestFirstUseWaitsForTheWindowOfTheSecondWhenTheFirstWasNeverSent(t *testing.T) {
	m := build(t, limit.Spec{As: limit.FirstUse, Amount: 2, Window: time.Minute})
	second := began.Add(10 * time.Second)
	m.Take(began, 1)
	m.Take(second, 1)
	now := began.Add(65 * time.Second) // the window of the first has ended
	m.Left(now)
	m.Give(now, began, 1)
	if at, _ := m.When(now, 1); !at.Equal(now) {
		t.Errorf("the next may go at %v", at)
	}
	if at, _ := m.When(now, 2); !at.Equal(second.Add(time.Minute + time.Minute/128)) { // it may arrive late
		t.Errorf("two may go at %v, the second went at %v", at, second)
	}
}

// The request that opened a window failed, and may not have arrived: the server's window may have begun with a later one.
func TestAFirstUseWhoseFirstRequestFailedKeepsTheLimitOfTheSecondsWindow(t *testing.T) {
	m := build(t, limit.Spec{As: limit.FirstUse, Amount: 12, Window: 5 * time.Second})
	second := began.Add(time.Second)
	m.Take(began, 1)
	m.Take(second, 11)
	m.Done(second.Add(time.Second), began, 1, limit.Failed)
	m.Done(second.Add(time.Second), second, 11, limit.Success)
	if at, _ := m.When(second.Add(2*time.Second), 12); at.Before(second.Add(5 * time.Second)) {
		t.Errorf("twelve may go %v after eleven", at.Sub(second))
	}
}

func TestAMovedMeterKeepsWhatItCounted(t *testing.T) {
	for _, s := range all {
		m := build(t, s)
		for range 5 {
			m.Take(began, 1)
		}
		to := s
		to.Amount = max(s.Amount-2, 0)
		moved, err := limit.Move(began, m, to)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := moved.When(began, 1)
		if !at.After(began) {
			t.Errorf("%s: one of %d may go after 5", s.As, to.Amount)
		}
		if wait := at.Sub(began); wait > 24*time.Hour && !at.Equal(limit.Unknown) {
			t.Errorf("%s: a lower limit waits %v", s.As, wait)
		}
		if other, err := limit.Move(began, moved, limit.Spec{As: limit.Concurrency, Amount: 1}); err != nil || s.As != limit.Concurrency && other.Left(began) != 1 {
			t.Errorf("%s: becomes another kind: %v", s.As, err)
		}
	}
}

func TestTakeAndWhenAllocateNothing(t *testing.T) {
	for _, s := range all {
		m := build(t, s)
		now := began
		takeOnce := func() {
			at, _ := m.When(now, 1)
			if at.After(now) && !at.Equal(limit.Unknown) {
				now = at
			}
			m.Take(now, 1)
			m.Done(now, now, 1, limit.Success)
		}
		for range 100 {
			takeOnce()
		}
		if n := testing.AllocsPerRun(1000, takeOnce); n > 0 {
			t.Errorf("%s: %v allocations", s.As, n)
		}
	}
}

// A server that counts arrivals may count what is in flight over an edge in the
// window after it.
func TestWhatIsInFlightOverAnEdgeCountsInBothWindows(t *testing.T) {
	edge := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	minute := limit.Spec{As: limit.Fixed, Amount: 10, Window: time.Minute}
	for name, c := range map[string]struct {
		before time.Duration
		done   time.Duration // after the edge
		left   int64
	}{
		"over the edge":        {100 * time.Millisecond, time.Millisecond, 6},
		"done before the edge": {100 * time.Millisecond, -time.Millisecond, 10},
		"long before the edge": {time.Second, time.Millisecond, 10},
	} {
		m := build(t, minute)
		taken := edge.Add(-c.before)
		m.Take(taken, 4)
		m.Done(edge.Add(c.done), taken, 4, limit.Success)
		if left := m.Left(edge.Add(time.Second)); left != c.left {
			t.Errorf("%s: %d are left, want %d", name, left, c.left)
		}
		if left := m.Left(edge.Add(time.Minute)); left != 10 {
			t.Errorf("%s: %d are left in the window after, want 10", name, left)
		}
	}
	m := build(t, minute)
	m.Take(edge.Add(-time.Millisecond), 4)
	if left := m.Left(edge.Add(time.Minute)); left != 10 {
		t.Errorf("%d are left after a whole window, want 10", left)
	}
}

func TestRollingCountsFromWhenTheAnswerCame(t *testing.T) {
	for _, c := range []struct{ done, from time.Duration }{
		{0, 0},
		{3 * time.Millisecond, 3 * time.Millisecond},
		{time.Second, time.Second / 128}, // the margin
		{time.Hour, time.Second / 128},
	} {
		m := build(t, limit.Spec{As: limit.Rolling, Amount: 1, Window: time.Second})
		m.Take(began, 1)
		if at, _ := m.When(began, 1); at.Sub(began) != time.Second {
			t.Errorf("while it is in flight it says %v, as if it were not done now", at.Sub(began))
		}
		m.Left(began.Add(min(c.done, 2*time.Second)))
		m.Done(began.Add(c.done), began, 1, limit.Success)
		for _, at := range []time.Duration{c.from + time.Second - 1, c.from + time.Second} {
			if at < c.done {
				continue
			}
			if free := m.Left(began.Add(at)) == 1; free != (at >= c.from+time.Second) {
				t.Errorf("done after %v: at %v it is free: %v", c.done, at, free)
			}
		}
	}
}

func TestWhatIsOwedIsPaidWindowByWindowAlsoWithSomethingInFlight(t *testing.T) {
	m := build(t, limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Second})
	m.Take(began, 5)
	m.Done(began, began, 5, limit.Success)
	m.Take(began.Add(999*time.Millisecond), 5)
	m.Settle(began.Add(999*time.Millisecond), began, 5, 25) // 20 are owed
	now := began.Add(2500 * time.Millisecond)               // of which 15 are paid
	if left := m.Left(now); left != 0 {
		t.Errorf("%d are left while 5 are owed", left)
	}
	if at, _ := m.When(now, 5); at.Sub(began) != 3006812500*time.Nanosecond {
		t.Errorf("it waits until %v", at.Sub(began))
	}
}

// A request that its client has left, or whose connection has broken, may still be on its way.
func TestARequestThatWasLeftCountsUntilItCertainlyHasArrived(t *testing.T) {
	for _, o := range []limit.Outcome{limit.Abandoned, limit.Failed} {
		m := build(t, limit.Spec{As: limit.Rolling, Amount: 1, Window: 10 * time.Second})
		m.Take(began, 1)
		m.Done(began.Add(time.Millisecond), began, 1, o)
		if at, _ := m.When(began.Add(10*time.Second+20*time.Millisecond), 1); !at.After(began.Add(10*time.Second + 20*time.Millisecond)) {
			t.Errorf("rolling, outcome %d: the next goes %v after it", o, at.Sub(began))
		}
		m = build(t, limit.Spec{As: limit.Fixed, Amount: 1, Window: 10 * time.Second})
		boundary := began.Truncate(10 * time.Second).Add(10 * time.Second)
		sent := boundary.Add(-time.Millisecond)
		m.Take(sent, 1)
		m.Done(sent.Add(time.Microsecond), sent, 1, o)
		if at, _ := m.When(boundary, 1); !at.After(boundary) {
			t.Errorf("fixed, outcome %d: the next goes %v after the boundary", o, at.Sub(boundary))
		}
	}
}

// The request that has opened a window was given back: the server's window begins with another, when
// that is sent.
func TestAFirstUseWhoseFirstRequestIsGivenBackEndsAfterTheOthersWereSent(t *testing.T) {
	second, sent, given := began.Add(time.Second), began.Add(3*time.Second), began.Add(2*time.Second)
	for _, before := range []bool{true, false} {
		m := build(t, limit.Spec{As: limit.FirstUse, Amount: 3, Window: 10 * time.Second})
		m.Take(began, 1)
		m.Take(second, 1)
		if before {
			m.Postpone(sent, second, 1)
			given = sent
		}
		m.Give(given, began, 1)
		if !before {
			m.Postpone(sent, second, 1)
		}
		if at, _ := m.When(sent, 3); at.Before(sent.Add(10 * time.Second)) {
			t.Errorf("sent before it was given back: %v: three go %v after it was sent", before, at.Sub(sent))
		}
	}
}
