package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// A site whose answers take long, as with long polling or language models, gets twice as many requests
// every second: 32 are in flight after five.
func TestASlowStartDoesNotWaitForAnswersThatDoNotCome(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	m, now := NewSlowStart(0), began
	var sent []int64
	for range 6 {
		for at, ok := m.When(now, 1); ok && !at.After(now); at, ok = m.When(now, 1) {
			m.Take(now, 1)
		}
		sent = append(sent, m.inFlight)
		now = m.Patience(now)
	}
	for i, want := range []int64{1, 2, 4, 8, 16, 32} {
		if sent[i] != want {
			t.Fatalf("in flight are %v", sent)
		}
	}
	if took := now.Sub(began); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Where answers take long, more are not sent before one is later than that.
func TestASlowStartWaitsForAnswersThatAreNotLate(t *testing.T) {
	m, now := NewSlowStart(0), time.Unix(1_800_000_000, 0)
	m.Take(now, 1)
	taken := now
	now = now.Add(4 * time.Second)
	m.Done(now, taken, 1, limit.Success)
	for at, ok := m.When(now, 1); ok && !at.After(now); at, ok = m.When(now, 1) {
		m.Take(now, 1)
	}
	if wait := m.Patience(now).Sub(now); wait != 8*time.Second {
		t.Errorf("more go after %v", wait)
	}
}

// A slow start ends with enough successes, and refuses nothing after that.
func TestASlowStartEnds(t *testing.T) {
	m, now := NewSlowStart(0), time.Unix(1_800_000_000, 0)
	for range SlowStartSuccesses {
		if at, ok := m.When(now, 1); !ok || at.After(now) {
			t.Fatal("a single request has to wait")
		}
		m.Take(now, 1)
		taken := now
		now = now.Add(10 * time.Millisecond)
		m.Done(now, taken, 1, limit.Success)
	}
	for range 10_000 {
		if at, ok := m.When(now, 1); !ok || at.After(now) {
			t.Fatal("it has not ended")
		}
		m.Take(now, 1)
	}
}

// TestASlowStartIsOverSoonWhereAnswersTakeLong: at a site that answers in 200 ms, 32 are in flight within five seconds, and in
// 2 s, too.
func TestASlowStartIsOverSoonWhereAnswersTakeLong(t *testing.T) {
	for _, latency := range []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		began := time.Unix(1_800_000_000, 0)
		m, now := NewSlowStart(0), began
		var taken []time.Time
		for m.inFlight < 32 {
			for n := lets(m, now); n > 0; n-- {
				taken = append(taken, now)
			}
			if m.inFlight < 32 {
				now = taken[0].Add(latency)
				m.Done(now, taken[0], 1, limit.Success)
				taken = taken[1:]
			}
		}
		if took := now.Sub(began); took > max(5*time.Second, 5*latency) {
			t.Errorf("answers take %v: 32 are in flight after %v", latency, took)
		}
	}
}

// lets tells how many more requests a meter lets go at now, and takes them.
func lets(m *SlowStart, now time.Time) (n int) {
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
