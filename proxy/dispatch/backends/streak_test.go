package backends

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestASiteThatAnswersAlikeForTenSecondsFails(t *testing.T) {
	start, of := time.Unix(1_700_000_000, 0), Key{Site: "a"}
	for _, c := range []struct {
		name    string
		answers string // of a second each: "." works, any other is a failure
		certain bool
		failing bool
	}{
		{"five in ten seconds", "x  x  x  x x", false, true},
		{"many at once", "xxxxxxxxx", false, false},
		{"few for long", "x     x     x      x", false, false},
		{"one that works between", "x  x  x . x x", false, false},
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
			first, ended := s.Answered(of, map[rune]string{'x': "x", 'y': "y"}[kind], c.certain, now)
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
		if _, ended := s.Answered(of, "", false, now.Add(time.Minute)); (ended > 0) != c.failing || len(s.streaks) != 0 {
			t.Errorf("%s: after a success: %v %v", c.name, ended, s.streaks)
		}
	}
}

func TestFailingSitesAreBounded(t *testing.T) {
	s := NewBreakers()
	for i := range 2 * mostBreakers {
		s.Answered(Key{Site: fmt.Sprint(i)}, "it failed", false, time.Unix(0, 0))
	}
	if len(s.streaks) > mostBreakers {
		t.Error(len(s.streaks))
	}
}
