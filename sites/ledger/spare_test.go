package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

func TestALedgerIsNotSpareWhileOnlyItKnowsWhatIsUsed(t *testing.T) {
	minute := learn.Limit{Limit: learn.Amount{N: 60, Known: true}, Window: time.Minute}
	left := minute
	left.Remaining = learn.Amount{N: 40, Known: true}
	left.Reset = time.Date(2026, 1, 1, 0, 0, 41, 0, time.UTC)
	for _, one := range []struct {
		name         string
		said         learn.Limit
		silent       bool // the last answer says nothing
		spare, later bool
	}{
		{"what is left is said", left, false, true, true},
		{"what is left was said, and not by the last answer", left, true, false, true},
		{"only the whole is said", minute, false, false, true},
	} {
		t.Run(one.name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
			l := New(Options{})
			for n := range 20 {
				l.Take(now, 1)
				if n < 19 || !one.silent {
					l.Update(now, Answer{Sent: now, Units: 1, Limit: one.said})
				}
				l.Done(now, now, 1, limit.Success)
			}
			if got := l.Spare(now.Add(11 * time.Second)); got != one.spare {
				t.Errorf("spare: %v, with %d left", got, l.Left(now.Add(11*time.Second)))
			}
			if got := l.SpareAt(now.Add(11 * time.Second)).Add(time.Nanosecond); !l.Spare(got) || got.Before(now.Add(time.Hour)) {
				t.Errorf("its state counts until %v, and is spare then: %v", got.Sub(now), l.Spare(got))
			}
			if got := l.Spare(now.Add(2 * time.Hour)); got != one.later {
				t.Errorf("spare two hours later: %v", got)
			}
		})
	}
}

func TestTheStateOfALimitThatHasRefusedCountsUntilItsWindowIsOver(t *testing.T) {
	for _, window := range []time.Duration{time.Minute, 24 * time.Hour} {
		now := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
		l, reset := New(Options{}), now.Add(window/2)
		l.Take(now, 1)
		l.Update(now, Answer{Sent: now, Units: 1, Refused: true, RetryAt: reset, Limit: learn.Limit{
			Limit: learn.Amount{N: 60, Known: true}, Remaining: learn.Amount{Known: true}, Window: window, Reset: reset,
		}})
		l.Done(now, now, 1, limit.Refused)
		if l.Spare(now.Add(11 * time.Second)) {
			t.Error("it is spare")
		}
		if got := l.SpareAt(now); got.Before(reset) {
			t.Errorf("its state counts until %v before the window is over", reset.Sub(got))
		}
		again := New(Options{})
		if err := again.Restore(now.Add(11*time.Second), l.State()); err != nil {
			t.Fatal(err)
		}
		if at, _ := again.When(now.Add(11*time.Second), 1); at.Before(reset) {
			t.Errorf("one goes %v too early", reset.Sub(at))
		}
	}
}

func TestTheStateOfAPaceCountsWhileItIsNotSpare(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
	for _, retry := range []time.Duration{time.Second, time.Hour} {
		p := NewHiddenRate(History{Accepted: 100, Lasted: 10 * time.Second})
		p.Take(now, 1)
		p.Refused(now, Refusal{Sent: now, RetryAt: now.Add(retry)})
		p.Done(now, now, 1, limit.Refused)
		if at := p.SpareAt(now); p.Spare(now.Add(retry/2)) || !p.Spare(at.Add(time.Nanosecond)) || at.Before(now.Add(retry)) {
			t.Errorf("its state counts for %v", at.Sub(now))
		}
	}
}
