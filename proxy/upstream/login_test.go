package upstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// pauseOf returns the rest of the pause for which a Login lets nothing go.
func pauseOf(t *testing.T, l *Login) time.Duration {
	t.Helper()
	err := l.Begin(t.Context())
	var e *Error
	if !errors.As(err, &e) || e.Kind != HopLogin {
		t.Fatalf("no pause: %v", err)
	}
	return time.Until(e.Until)
}

func TestAWrongLoginIsTriedAfterPausesThatDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Login{}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			if err := l.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.End(407)
			if got := pauseOf(t, l); got != want*time.Minute {
				t.Errorf("a pause of %v, not of %d minutes", got, want)
			}
			time.Sleep(want * time.Minute)
		}
		l.Reset()
		if err := l.Begin(t.Context()); err != nil {
			t.Error("after a reload:", err)
		}
	})
}

func TestALoginIsTriedByOneRequestUntilItIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Login{}
		if err := l.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		waited := make(chan time.Duration, 3)
		began := time.Now()
		for range 2 {
			go func() {
				_ = l.Begin(t.Context())
				waited <- time.Since(began)
			}()
		}
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := l.Begin(leaving); KindOf(err) != Canceled {
			t.Errorf("a client that left: %v", err)
		}
		time.Sleep(time.Second)
		l.End(0)                // the connection broke: the next tries
		time.Sleep(time.Minute) // which takes longer than a trial may: the one after goes beside it
		if first, second := <-waited, <-waited; first != 2*time.Second || second != 2*time.Second+loginTrial {
			t.Errorf("they waited %v and %v", first, second)
		}
		l.End(200)
		for range 5 {
			if err := l.Begin(t.Context()); err != nil {
				t.Error("accepted:", err)
			}
		}
	})
}

func TestASiteThatAnswers407PausesNoLoginThatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Login{}
		for _, status := range []int{200, 407, 407, 200, 407, 407} {
			if err := l.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.End(status)
		}
		if !l.Refused().IsZero() {
			t.Error("it pauses")
		}
		l.End(407)
		if got := pauseOf(t, l); got != 4*time.Minute {
			t.Errorf("a password that was changed: a pause of %v", got)
		}
		var without *Login
		if without.Begin(t.Context()) != nil || without.End(200) != nil || without.End(407).Kind != HopLogin || !without.Refused().IsZero() {
			t.Error("without a password")
		}
	})
}
