package limit_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

type rated interface {
	limit.Meter
	Rate(now time.Time) float64
}

func adaptive(t *testing.T) rated {
	t.Helper()
	return build(t, limit.Spec{As: limit.Adaptive, Min: 0.2, Max: 20}).(rated)
}

// served sends n requests one after another, which all end the same way.
func served(m limit.Meter, now time.Time, n int, o limit.Outcome) time.Time {
	for range n {
		if at, _ := m.When(now, 1); at.After(now) {
			now = at
		}
		m.Take(now, 1)
		m.Done(now, now, 1, o)
	}
	return now
}

func about(a, b float64) bool { return math.Abs(a-b) < 1e-9*b }

func TestAdaptiveBeginsInTheMiddleAndRisesWithSuccess(t *testing.T) {
	m := adaptive(t)
	if r := m.Rate(began); !about(r, 2) {
		t.Fatalf("begins at %v", r)
	}
	now := served(m, began, 99, limit.Success)
	if r := m.Rate(now); !about(r, 2) {
		t.Errorf("after 99 successes %v", r)
	}
	now = served(m, now, 1, limit.Success)
	if r := m.Rate(now); !about(r, 2.2) {
		t.Errorf("after 100 successes %v", r)
	}
	now = served(m, now, 100_000, limit.Success)
	if r := m.Rate(now); r != 20 {
		t.Errorf("after very many %v", r)
	}
}

func TestAdaptiveFallsAfterThreeFailuresWithinAWindow(t *testing.T) {
	m := adaptive(t)
	now := served(m, began, 2, limit.Refused)
	if r := m.Rate(now); !about(r, 2) {
		t.Errorf("after two refusals %v", r)
	}
	now = served(m, now.Add(2*time.Minute), 1, limit.Failed)
	if r := m.Rate(now); !about(r, 2) {
		t.Errorf("after a third, much later, %v", r)
	}
	now = served(m, now, 2, limit.Failed)
	if r := m.Rate(now); !about(r, 1.5) {
		t.Errorf("after three in a minute %v", r)
	}
	now = served(m, now, 300, limit.Failed)
	if r := m.Rate(now); r != 0.2 {
		t.Errorf("after very many %v", r)
	}
}

func TestAdaptiveFallsOnceForAllThatWereInFlight(t *testing.T) {
	m := adaptive(t)
	now := began
	for range 50 {
		if at, _ := m.When(now, 1); at.After(now) {
			now = at
		}
		m.Take(now, 1)
	}
	for range 50 {
		m.Done(now, now, 1, limit.Refused)
	}
	if r := m.Rate(now); !about(r, 1.5) {
		t.Errorf("50 refusals of one rate make it %v", r)
	}
}

func TestAdaptiveComesNearARefusedRateSlowly(t *testing.T) {
	m := adaptive(t)
	now := served(m, began, 3, limit.Refused) // 2 is too much
	for range 4 {
		now = served(m, now, 100, limit.Success)
	}
	// 1.5, 1.65, 1.815; 2 times 0.95 is near, so from there by hundredths.
	if r := m.Rate(now); r > 1.9 || r < 1.8 {
		t.Errorf("four steps after a refusal at 2 the rate is %v", r)
	}
	now = served(m, now, 2000, limit.Success)
	if r := m.Rate(now); r <= 2 {
		t.Errorf("a rate that is not refused any more stays at %v", r)
	}
}

func TestAdaptiveForgetsWhatIsADayOld(t *testing.T) {
	m := adaptive(t)
	now := served(m, began, 30, limit.Failed)
	if m.Idle(now.Add(time.Hour)) {
		t.Error("a rate that fell can be forgotten after an hour")
	}
	if later := now.Add(25 * time.Hour); !m.Idle(later) || !about(m.Rate(later), 2) {
		t.Errorf("after a day the rate is %v", m.Rate(later))
	}
}

func TestAdaptiveIsNeverFasterThanItsMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := limit.Spec{As: limit.Adaptive, Min: 0.5, Max: 8}
		outcome := rapid.SampledFrom([]limit.Outcome{limit.Success, limit.Success, limit.Success, limit.Failed, limit.Refused, limit.Abandoned})
		live(t, s, true, func(h *history, e *event) {
			for range rapid.IntRange(0, 60).Draw(t, "others") {
				h.m.Done(h.now, h.now, 1, outcome.Draw(t, "outcome"))
			}
			if wrong := keepsItsMaximum(s, h, e); wrong != "" {
				t.Fatal(wrong)
			}
		})
	})
}

func TestAdaptiveSpacesUnitsAtAnyRate(t *testing.T) {
	for _, rate := range []float64{1e-6, 0.3, 1, 7, 1e3, 3e5, 1e9} {
		m := build(t, limit.Spec{As: limit.Adaptive, Min: rate, Max: rate})
		m.Take(began, 1)
		at, _ := m.When(began, 1)
		if got, want := at.Sub(began), time.Duration(math.Ceil(1e9/rate)); got < want || got > want+max(1, want/1e9) {
			t.Errorf("at %g a second, the next goes after %v instead of %v", rate, got, want)
		}
		for range 999 {
			m.Take(began, 1)
		}
		at, _ = m.When(began, 1)
		if got, want := at.Sub(began), time.Duration(1e12/rate); want < math.MaxInt64/4 && (got < want || got > want+max(1000, want/1e6)) {
			t.Errorf("at %g a second, a thousand take %v instead of %v", rate, got, want)
		}
	}
}
