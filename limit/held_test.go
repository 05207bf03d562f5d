package limit

import (
	"testing"
	"time"
)

// Each window begins with what is held taken, at most half of the limit, also after a reload. What
// is held goes back whenever it was taken.
func TestAWindowBeginsWithWhatIsHeld(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, spec := range []Spec{
		{As: Fixed, Amount: 1000, Window: time.Minute},
		{As: Quota, Amount: 1000, Period: Day},
	} {
		m, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		expect := func(what string, want int64) {
			t.Helper()
			if left := m.Left(now); left != want {
				t.Errorf("%s, %s: %d are left, not %d", spec.As, what, left, want)
			}
		}
		m.Take(now, 300)
		m.(Holder).Hold(300)
		expect("taken", 700)
		now = now.Add(24 * time.Hour)
		expect("the next window", 700)
		m.(Holder).Hold(600)
		spec.Amount = 900
		if m, err = Move(now, m, spec); err != nil {
			t.Fatal(err)
		}
		now = now.Add(24 * time.Hour)
		expect("after a reload", 450)
		m.Give(now, now, 450)
		m.(Holder).Hold(0)
		expect("given back", 900)
		now = now.Add(24 * time.Hour)
		expect("nothing is held", 900)
		if list := PastOf(now, m); len(list) > 0 {
			t.Errorf("%s: %v are remembered", spec.As, list)
		}
	}
}

// What a first-use limit has taken over is listed once, also after its window has opened again.
func TestTakesOfAFirstUseLimitAreListedOnce(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	spec := Spec{As: FirstUse, Amount: 12, Window: time.Hour}
	m, err := Carry(now, []Spent{{30 * time.Second, 2}, {20 * time.Second, 1}, {10 * time.Second, 2}}, spec)
	if err != nil {
		t.Fatal(err)
	}
	for more := range int64(3) {
		if n := sum(PastOf(now, m), maxAmount); n != 5+more {
			t.Errorf("after %d more, %d are listed", more, n)
		}
		now = now.Add(25 * time.Minute)
		m.Take(now, 1)
	}
}
