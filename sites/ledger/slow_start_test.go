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
