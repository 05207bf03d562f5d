package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/limit"
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
					l.Hear(now, Answer{Sent: now, N: 1, Said: one.said})
				}
				l.Done(now, now, 1, limit.Success)
			}
			if got := l.Spare(now.Add(11 * time.Second)); got != one.spare {
				t.Errorf("spare: %v, with %d left", got, l.Left(now.Add(11*time.Second)))
			}
			if got := l.Spare(now.Add(2 * time.Hour)); got != one.later {
				t.Errorf("spare two hours later: %v", got)
			}
		})
	}
}
