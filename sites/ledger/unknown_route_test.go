package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// lets tells how many more a First lets go at now, and takes them.
func lets(m *UnknownRoute, now time.Time) (n int) {
	for at, ok := m.When(now, 1); ok && !at.After(now) && n < 1000; at, ok = m.When(now, 1) {
		m.Take(now, 1)
		n++
	}
	return n
}

func TestTheFirstGoesAloneUntilItIsAnswered(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewUnknownRoute()
	if n := lets(m, now); n != 1 {
		t.Errorf("%d at first", n)
	}
	if n := lets(m, now.Add(2*time.Second)); n != 0 {
		t.Errorf("%d more before the answer", n)
	}
	now = now.Add(3 * time.Second)
	m.Done(now, now, 1, limit.Success)
	if n := lets(m, now); n != 2 {
		t.Errorf("%d after one answer that opens nothing", n)
	}
}

func TestTheFirstIsNotWaitedForForEver(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewUnknownRoute()
	lets(m, now)
	for n, want := range []int{1, 2, 4, 8} {
		at := m.Patience(now)
		if wait := at.Sub(now); wait != 5*time.Second {
			t.Fatalf("%d: the patience is %v", n, wait)
		}
		if early := lets(m, at.Add(-time.Millisecond)); early != 0 {
			t.Errorf("%d: %d go before it ends", n, early)
		}
		now = at
		if got := lets(m, now); got != want {
			t.Errorf("%d: %d go when it ends, want %d", n, got, want)
		}
	}
}

func TestAFirstThatFailsOrIsNotSentMakesRoom(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewUnknownRoute()
	lets(m, now)
	m.Give(now, now, 1)
	if n := lets(m, now); n != 1 {
		t.Errorf("%d after one that was not sent", n)
	}
	m.Done(now, now, 1, limit.Failed)
	if n := lets(m, now); n != 1 {
		t.Errorf("%d after one that failed", n)
	}
	if m.Idle(now) {
		t.Error("it is idle with one in flight")
	}
}
