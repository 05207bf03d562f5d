package backends

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestASiteThatAnswersAlikeForTenSecondsFails(t *testing.T) {
	start, of := time.Unix(1_700_000_000, 0), Key{Site: "a"}
	for _, c := range []struct {
		name    string
		answers string // of a second each: "." works, "," works and was sent before the start, any other is a failure
		certain bool
		failing bool
	}{
		{"five in ten seconds", "x  x  x  x x", false, true},
		{"many at once", "xxxxxxxxx", false, false},
		{"few for long", "x     x     x      x", false, false},
		{"one that works between", "x  x  x . x x", false, false},
		{"one from before that works between", "x  x  x , x x", false, true},
		{"two kinds", "x  x  y  x  y x", false, false},
		{"another kind, for long", "x  x  y  y  y   y    y", false, true},
		{"a block that was verified", "x", true, true},
	} {
		s, began := NewBreakers(), 0
		now := start
		for i, kind := range c.answers {
			now = start.Add(time.Duration(i) * time.Second)
			if kind == ' ' {
				continue
			}
			sent := now
			if kind == ',' {
				sent = start.Add(-time.Second)
			}
			first, ended := s.Answered(of, map[rune]string{'x': "x", 'y': "y"}[kind], c.certain, sent, now)
			if first {
				began++
			}
			if ended != 0 {
				t.Errorf("%s: an outage of %v has ended", c.name, ended)
			}
		}
		if b := s.Status(of, now); (b.State == status.Failing) != c.failing || (began == 1) != c.failing || len(s.All(now)) != began {
			t.Errorf("%s: %+v, began %d times", c.name, b, began)
		}
		if b := s.Status(of, now.Add(streakLasts)); b.State != "" {
			t.Errorf("%s: long after: %+v", c.name, b)
		}
		if _, ended := s.Answered(of, "", false, now.Add(time.Minute), now.Add(time.Minute)); (ended > 0) != c.failing || s.Failing(of, now) {
			t.Errorf("%s: after a success: %v %v", c.name, ended, s.All(now))
		}
	}
}

// TestAnOutageIsToldAtItsEndToo: while a site fails it is asked more and more seldom, so the last failure comes long before the end.
func TestAnOutageIsToldAtItsEndToo(t *testing.T) {
	start, of := time.Unix(1_700_000_000, 0), Key{Site: "a"}
	for _, c := range []struct {
		failures []float64 // when, in seconds
		success  float64
		lasts    time.Duration
	}{
		{[]float64{0, 0, 1, 2, 4, 6}, 10.5, 10500 * time.Millisecond},
		{[]float64{0, 0, 1, 2, 4, 6}, 9, 0},
		{[]float64{0, 0, 1, 2}, 10.5, 0},
		{[]float64{0, 0, 1, 1, 1, 2}, 60, 0}, // most of the time nobody asked
	} {
		s := NewBreakers()
		at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
		for _, when := range c.failures {
			s.Answered(of, "it answers 503 to all requests", false, at(when), at(when))
		}
		was := s.Status(of, at(c.success))
		if _, ended := s.Answered(of, "", false, at(c.success), at(c.success)); ended != c.lasts || (was.Why != "") != (c.lasts > 0) {
			t.Errorf("failures at %v, a success at %v: an outage of %v, %+v", c.failures, c.success, ended, was)
		}
	}
}

// TestWhatFailsAtRandomDoesNotFailAllRequests: however large the part is, it is called so once at most, before a request has succeeded.
// An outage is found beside it all the same.
func TestWhatFailsAtRandomDoesNotFailAllRequests(t *testing.T) {
	of := Key{Site: "a"}
	for _, share := range []float64{.1, .3, .5, .8} {
		called, chance := 0, rand.New(rand.NewPCG(1, 2))
		for range 20 {
			s, now := NewBreakers(), time.Unix(1_700_000_000, 0)
			answer := func(fails bool) (began bool) {
				now = now.Add(3 * time.Second)
				cause := ""
				if fails {
					cause = "it answers 403 to all requests"
				}
				began, _ = s.Answered(of, cause, fails && chance.Float64() < .2, now, now)
				return began
			}
			answer(true)
			answer(false)
			for range 5000 {
				if answer(chance.Float64() < share) {
					called++
				}
			}
			n := 1
			for ; !answer(true) && n < 200; n++ {
			}
			if n > 100 {
				t.Errorf("%v fail at random: an outage is told after %d answers", share, n)
			}
		}
		if called > 1 {
			t.Errorf("%v fail at random: %d times in 100,000 answers it is said to fail all requests", share, called)
		}
	}
}

func TestFailingSitesAreBounded(t *testing.T) {
	s := NewBreakers()
	for i := range 2 * mostBreakers {
		s.Answered(Key{Site: fmt.Sprint(i)}, "it failed", false, time.Unix(0, 0), time.Unix(0, 0))
	}
	if n := s.Len(); n > mostBreakers {
		t.Errorf("%d are remembered", n)
	}
}
