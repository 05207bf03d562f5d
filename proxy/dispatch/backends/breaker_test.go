package backends

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// leaveUntil is Leave for a test that asks for the time alone.
func (s *Breakers) leaveUntil(of Key, rule policy.Breaker, pass Pass, how Health, now time.Time) time.Time {
	until, _, _ := s.Leave(of, rule, pass, how, "", false, now)
	return until
}

func TestABreakerSaysOnceThatItOpensAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule, who := policy.Breaker{Failures: 2, Pause: time.Second}, Key{Site: "a"}
		s := NewBreakers()
		opened := func(cause string) bool {
			done, _ := s.Enter(who, rule, time.Now())
			_, now, _ := s.Leave(who, rule, done, Ill, cause, false, time.Now())
			return now
		}
		if opened("one") || !opened("two") {
			t.Fatal("it opens with the second failure")
		}
		if opened("late") {
			t.Error("it opens once")
		}
		time.Sleep(2 * time.Second)
		if opened("three") {
			t.Error("a probe that fails opens nothing that worked")
		}
		if why := s.find(who, rule).cause; why != "three" {
			t.Errorf("it failed last because %q", why)
		}
	})
}

func TestABreakerOpensAndLetsSingleProbesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := policy.Breaker{Failures: 3, Pause: 30 * time.Second}
		s := NewBreakers()
		who := Key{Site: "a"}
		fail := func() time.Time {
			done, until := s.Enter(who, rule, time.Now())
			if !until.IsZero() {
				t.Fatalf("not let in until %v", until)
			}
			return s.leaveUntil(who, rule, done, Ill, time.Now())
		}
		for range 2 {
			if !fail().IsZero() {
				t.Fatal("open too early")
			}
		}
		// A success between them begins anew, and leaves nothing behind.
		s.leaveUntil(who, rule, Pass{}, Well, time.Now())
		if b := s.Status(who, time.Now()); b.State != "" {
			t.Fatalf("after a success: %+v", b)
		}
		fail()
		s.leaveUntil(who, rule, Pass{}, Unknown, time.Now())
		fail()
		until := fail()
		if got := time.Until(until); got != time.Second {
			t.Fatalf("open for %v", got)
		}
		if _, again := s.Enter(who, rule, time.Now()); again.IsZero() {
			t.Fatal("let in while it is open")
		}
		if !s.Open(Key{Site: "b"}, rule, time.Now()).IsZero() || s.Open(who, rule, time.Now()).IsZero() {
			t.Fatal("the wrong one is open")
		}
		time.Sleep(time.Until(until))
		done, again := s.Enter(who, rule, time.Now())
		if !again.IsZero() || !s.Open(who, rule, time.Now()).IsZero() {
			t.Fatal("no probe is let in")
		}
		if _, again = s.Enter(who, rule, time.Now()); again.IsZero() {
			t.Fatal("a second probe is let in")
		}
		// A probe that says nothing makes room for another.
		s.leaveUntil(who, rule, done, Unknown, time.Now())
		done, again = s.Enter(who, rule, time.Now())
		if !again.IsZero() {
			t.Fatal("no second probe")
		}
		if until = s.leaveUntil(who, rule, done, Ill, time.Now()); time.Until(until) != time.Second {
			t.Fatalf("a probe that fails opens it again for %v", time.Until(until))
		}
		time.Sleep(time.Until(until))
		done, _ = s.Enter(who, rule, time.Now())
		s.leaveUntil(who, rule, done, Well, time.Now())
		if b := s.Status(who, time.Now()); b.State != "" {
			t.Fatalf("it did not close: %+v", b)
		}
		// Another rule after a reload begins anew; none is none.
		fail()
		if s.Forget(); s.find(who, rule) != nil || s.Len() != 0 {
			t.Fatal("the old rule holds")
		}
		if !s.leaveUntil(who, policy.Breaker{}, Pass{}, Ill, time.Now()).IsZero() || s.Len() != 0 {
			t.Fatal("a breaker that is off counts")
		}
	})
}

// TestAnOutageLastsLongerByAThirdAtMost: the next try follows soon after the site is back, and a dead site is asked rarely.
func TestAnOutageLastsLongerByAThirdAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule, who, began := policy.Breaker{Failures: 1, Pause: 30 * time.Second}, Key{Site: "a"}, time.Now()
		s := NewBreakers()
		tries, until := 0, s.leaveUntil(who, rule, Pass{}, Ill, time.Now())
		for time.Since(began) < time.Hour {
			last := max(time.Since(began), 3*time.Second)
			time.Sleep(time.Until(until))
			if now := time.Since(began); now > last*4/3+time.Millisecond && now != last+rule.Pause {
				t.Errorf("no try from %v to %v", last, now)
			}
			if tries++; tries > 16 && time.Since(began) < 2*time.Minute || tries > 136 {
				t.Fatalf("%d tries within %v", tries, time.Since(began))
			}
			pass, _ := s.Enter(who, rule, time.Now())
			until = s.leaveUntil(who, rule, pass, Ill, time.Now())
		}
	})
}

func TestBreakersOfDeadHostsAreBounded(t *testing.T) {
	rule := policy.Breaker{Failures: 10, Pause: time.Minute}
	s := NewBreakers()
	for i := range mostBreakers + 10 {
		s.leaveUntil(Key{Site: fmt.Sprint(i)}, rule, Pass{}, Ill, time.Now())
	}
	if n := s.Len(); n > 10 {
		t.Errorf("%d are remembered", n)
	}
}
