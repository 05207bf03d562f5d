package limit_test

import (
	"encoding/hex"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

func TestAStoredMeterComesBackAllowingNoMore(t *testing.T) {
	for _, as := range kindsWith(func(t limit.Traits) bool { return !t.InFlight }) {
		t.Run(string(as), rapid.MakeCheck(func(t *rapid.T) {
			s := spec(t, as)
			h := live(t, s, false, func(*history, *event) {})
			fresh, err := limit.New(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := fresh.Restore(h.now, h.m.State()); err != nil {
				t.Fatal(err)
			}
			n := rapid.Int64Range(1, max(s.Amount, 1)).Draw(t, "n")
			want, ok := h.m.When(h.now, n)
			got, alsoOK := fresh.When(h.now, n)
			early := want.Sub(got)
			if kinds[as].floats {
				early -= 2
			}
			if ok != alsoOK || early > 0 {
				t.Fatalf("restored says %v (%v), the other %v (%v)", got, alsoOK, want, ok)
			}
			if late := got.Sub(want); !h.back && late > time.Microsecond && s.Window > time.Microsecond {
				t.Fatalf("restored waits %v longer", late)
			}
		}))
	}
}

func TestAStateFromTheFutureIsThatOfNow(t *testing.T) {
	for _, s := range all {
		m := build(t, s)
		for range 5 {
			m.Take(began, 1)
		}
		if s.Traits().InFlight { // of which a state has nothing
			continue
		}
		early := began.Add(-100 * 24 * time.Hour)
		fresh := build(t, s)
		if err := fresh.Restore(early, m.State()); err != nil {
			t.Fatalf("%s: %v", s.As, err)
		}
		at, _ := fresh.When(early, 1)
		if !at.After(early) || at.After(early.Add(49*time.Hour)) {
			t.Errorf("%s: the next may go at %v, restored at %v", s.As, at, early)
		}
	}
}

func TestAnIdleMeterCanBeForgotten(t *testing.T) {
	for _, s := range all {
		as := s.As
		t.Run(string(as), rapid.MakeCheck(func(t *rapid.T) {
			s := spec(t, as)
			h := live(t, s, false, func(*history, *event) {})
			h.pass(time.Duration(rapid.Int64Range(0, int64(max(s.Window, time.Hour))).Draw(t, "rest")))
			if !h.m.Idle(h.now) {
				return
			}
			n := rapid.Int64Range(1, max(s.Amount, 1)).Draw(t, "n")
			fresh, err := limit.New(s)
			if err != nil {
				t.Fatal(err)
			}
			_, fits := fresh.When(h.now, n)
			if at, ok := h.m.When(h.now, n); ok != fits || ok && at.After(h.now) {
				t.Fatalf("an idle meter makes %d wait until %v", n, at)
			}
		}))
	}
}

func TestEveryMeterIsIdleInTheEnd(t *testing.T) {
	for _, s := range all {
		m := build(t, s)
		if !m.Idle(began) {
			t.Errorf("%s: a new meter is not idle", s.As)
		}
		m.Take(began, 5)
		if m.Idle(began) {
			t.Errorf("%s: a meter is idle of which all is taken", s.As)
		}
		m.Done(began, began, 5, limit.Success)
		if !m.Idle(began.Add(25 * time.Hour)) {
			t.Errorf("%s: a meter is never idle again", s.As)
		}
	}
}

func TestAStateOfAnotherKindOrVersionIsRefusedWhole(t *testing.T) {
	for _, s := range all {
		for _, other := range all {
			m := build(t, other)
			m.Take(began, 5)
			fresh := build(t, s)
			err := fresh.Restore(began, m.State())
			if (err == nil) != (s.As == other.As) {
				t.Errorf("%s restores %s: %v", s.As, other.As, err)
			}
			if err != nil && fresh.Left(began) == 0 {
				t.Errorf("%s: a refused state left something behind", s.As)
			}
		}
		state := build(t, s).State()
		state[0] = 99
		if err := build(t, s).Restore(began, state); err == nil {
			t.Errorf("%s restores a version of the future", s.As)
		}
	}
}

func TestAStateIsSmall(t *testing.T) {
	m := build(t, limit.Spec{As: limit.Rolling, Amount: 100_000, Window: 15 * time.Minute})
	for i := range 100_000 {
		m.Take(began.Add(time.Duration(i)*8*time.Millisecond), 1)
	}
	if n := len(m.State()); n > 8<<10 {
		t.Errorf("100000 takes make a state of %d bytes", n)
	}
}

func TestAStateOfAnOlderVersionIsRead(t *testing.T) {
	now := began.Add(2 * time.Second)
	for _, s := range all {
		if kinds[s.As].older == "" {
			continue // there was no such kind
		}
		state, err := hex.DecodeString(kinds[s.As].older)
		if err != nil {
			t.Fatal(err)
		}
		want, got := build(t, s), build(t, s)
		if !s.Traits().InFlight { // whose requests ended with the process
			for i := range 3 {
				want.Take(began.Add(time.Duration(i)*time.Second), 1)
			}
		}
		if err := got.Restore(now, state); err != nil {
			t.Fatalf("%s: %v", s.As, err)
		}
		if a, b := want.Left(now), got.Left(now); a != b {
			t.Errorf("%s: %d are left, not %d", s.As, b, a)
		}
		if a, b := limit.PastOf(now, want), limit.PastOf(now, got); !slices.Equal(a, b) {
			t.Errorf("%s: %v was spent, not %v", s.As, b, a)
		}
	}
}

func TestADamagedStateIsRefusedOrAllowsNoMore(t *testing.T) {
	for _, s := range all {
		m := build(t, s)
		m.Take(began, 3)
		whole := m.State()
		for i := range whole {
			for value := range 256 {
				damaged := append([]byte(nil), whole...)
				damaged[i] = byte(value)
				for _, later := range []time.Duration{time.Second, -time.Hour} {
					survives(t, s, damaged, began.Add(later))
				}
			}
			if build(t, s).Restore(began, whole[:i]) == nil {
				t.Errorf("%s: %d bytes of %d are enough", s.As, i, len(whole))
			}
		}
	}
}

// A server's own bucket is modelled beside the meter's. Times of that model which no run
// can have produced would keep a caller waiting for as long as they say.
func TestADamagedBucketWaitsNoLongerThanItsOwnBucketWould(t *testing.T) {
	for _, s := range all {
		if s.Traits().Burst {
			t.Run(string(s.As), func(t *testing.T) { testDamagedBucket(t, s) })
		}
	}
}

func testDamagedBucket(t *testing.T, s limit.Spec) {
	m := build(t, s)
	m.Take(began, 3)
	whole := m.State()
	for i := range whole {
		for bit := range 8 {
			damaged := append([]byte(nil), whole...)
			damaged[i] ^= 1 << bit
			fresh := build(t, s)
			if fresh.Restore(began, damaged) != nil || fresh.Left(began) == 0 {
				continue // refused, or an amount that is owed, which may be any
			}
			if at, _ := fresh.When(began, 5); at.After(began.Add(2 * s.Window)) {
				t.Errorf("bit %d of byte %d: all may go at %v", bit, i, at)
			}
		}
	}
}

// survives restores a state that may be anything, and checks what a meter must be
// able to say of itself afterwards.
func survives(t *testing.T, s limit.Spec, state []byte, now time.Time) {
	t.Helper()
	m := build(t, s)
	before := m.Left(now)
	if err := m.Restore(now, state); err != nil {
		if m.Left(now) != before {
			t.Fatalf("%s: a refused state changed the meter", s.As)
		}
		return
	}
	for _, later := range []time.Duration{0, time.Second, 25 * time.Hour, 90 * 24 * time.Hour} {
		then := now.Add(later)
		left := m.Left(then)
		if left < 0 || !s.Traits().Adapts && left > s.AtOnce() {
			t.Fatalf("%s: %d left of %d", s.As, left, s.Amount)
		}
		at, ok := m.When(then, 1)
		if !ok || (left > 0) == at.After(then) {
			t.Fatalf("%s: %d left, and one may go at %v, asked at %v", s.As, left, at, then)
		}
		m.Take(then, 1)
		m.Settle(then, then, 1, 3)
		m.Give(then, then, 1)
		m.Done(then, began, 1, limit.Refused)
		m.Idle(then)
	}
	if err := build(t, s).Restore(now, m.State()); err != nil {
		t.Fatalf("%s: its own state: %v", s.As, err)
	}
}

func FuzzRestore(f *testing.F) {
	for i, s := range all {
		m := build(f, s)
		for range 5 {
			m.Take(began, 1)
		}
		m.Settle(began, began, 1, 100)
		f.Add(byte(i), m.State(), int64(0))
		f.Add(byte(i), build(f, s).State(), int64(-time.Hour))
		f.Add(byte(i), []byte{1, byte(i + 1), 0xff, 0xff, 0xff}, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, which byte, state []byte, offset int64) {
		// No time after 2242 is counted.
		survives(t, all[int(which)%len(all)], state, began.Add(time.Duration(offset)%(50*365*24*time.Hour)))
	})
}

// What a process has written down, the next one reads: also of a limit that was changed while a request was in
// flight at the end of a window, and that request was given back.
func TestAStateIsReadOfALimitWhoseWindowWasChangedBeforeUnitsWereGivenBack(t *testing.T) {
	s, late := limit.Spec{As: limit.Fixed, Amount: 5, Window: time.Second}, began.Add(999*time.Millisecond)
	m := build(t, s)
	m.Take(late, 3)
	s.Window = time.Minute
	m, err := limit.Move(late, m, s)
	if err != nil {
		t.Fatal(err)
	}
	m.Give(late, late, 3)
	if err := build(t, s).Restore(late, m.State()); err != nil {
		t.Error(err)
	}
}

func TestAFirstUseThatIsChangedBetweenTwoWindowsIsUnused(t *testing.T) {
	s := limit.Spec{As: limit.FirstUse, Amount: 5, Window: time.Minute}
	m, over := build(t, s), began.Add(61*time.Second)
	m.Take(began, 1)
	m.Take(began.Add(50*time.Second), 4)
	s.Amount = 6
	m, err := limit.Move(over, m, s)
	if err != nil {
		t.Fatal(err)
	}
	if left := m.Left(over); left != 6 {
		t.Errorf("%d of 6 are left after the end of the window", left)
	}
	if err := build(t, s).Restore(over, m.State()); err != nil {
		t.Error(err)
	}
}
