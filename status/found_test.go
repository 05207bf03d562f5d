package status

import "testing"

func TestALimitThatWasFoundSaysWhatWasFound(t *testing.T) {
	for _, c := range []struct {
		one         Announced
		label, left string
	}{
		{Announced{Title: HiddenTitle, State: Hidden, Limit: 20, Remaining: -1, Window: 1}, "about 20 in 1s, not announced", "-"},
		{Announced{Title: HiddenTitle + " for GET /a", State: Hidden, Limit: 100, Remaining: 40, Window: 60}, "about 100 in 1m for GET /a, not announced", "40 of 100"},
		{Announced{Title: HiddenTitle, State: Hidden, Limit: 5, Remaining: 1}, "5 at once, not announced", "1 of 5"},
		{Announced{Title: HiddenTitle, State: Hidden, Limit: -1, Remaining: -1}, HiddenTitle, "-"},
		{Announced{Title: HiddenTitle, State: Hidden, Limit: -1, Remaining: -1, AtRandom: 0.068}, "refusals at random, 6.8 % of the requests", "-"},
		{Announced{Title: HiddenTitle, State: Hidden, Limit: 5, Remaining: 1, SoFar: true}, "5 at once so far, not announced", "1 of 5"},
		{Announced{Title: "5 requests", State: "open", Limit: 5, Remaining: 3, Window: 16, SoFar: true}, "5 requests per about 16s so far (measured)", "3 of 5"},
		{Announced{Title: "20 per 1s", State: "open", Limit: 20, Remaining: 3, Window: 1}, "20 per 1s", "3 of 20"},
	} {
		if c.one.Label() != c.label || c.one.LeftText() != c.left {
			t.Errorf("%+v: %q, %q", c.one, c.one.Label(), c.one.LeftText())
		}
	}
}

func TestLimitsThatAreNotAnnouncedAreNamedByWhatWasFound(t *testing.T) {
	asked := 0
	named := Labels(func() []Announced {
		asked++
		return []Announced{
			{Site: "a.test", Title: HiddenTitle, State: Hidden, Limit: 7, Window: 60},
			{Site: "a.test", Title: HiddenTitle + " for GET /b", State: Hidden, Limit: -1},
			{Site: "a.test", Title: HiddenTitle + " for GET /c", State: Hidden, Limit: -1},
			{Site: "a.test", Title: HiddenTitle + " for GET /c", State: Hidden, Limit: 20, Window: 1},
			{Site: "b.test", Title: HiddenTitle, State: Hidden, AtRandom: 0.05},
			{Site: "b.test", State: Hidden, Limit: 3},
			{Site: "b.test", Title: "60 requests", Limit: 60, Window: 60},
		}
	})
	if got := named("a.test", ""); got != "" || asked > 0 {
		t.Errorf("%q, asked %d times", got, asked)
	}
	for _, c := range [][3]string{
		{"a.test", HiddenTitle, "about 7 in 1m, not announced"},
		{"a.test", HiddenTitle + " of alice", "about 7 in 1m, not announced of alice"},
		{"a.test", HiddenTitle + " for GET /b of alice", HiddenTitle + " for GET /b of alice"},
		{"a.test", HiddenTitle + " for GET /c", "about 20 in 1s for GET /c, not announced"},
		{"a.test", "900 per 15m", "900 per 15m"},
		{"b.test", "60 requests of any of 24 tokens of api", "60 requests per about 1m (measured) of any of 24 tokens of api"},
		{"b.test", HiddenTitle, "refusals at random, 5 % of the requests"},
		{"c.test", HiddenTitle, HiddenTitle},
	} {
		if got := named(c[0], c[1]); got != c[2] {
			t.Errorf("%q: %q, want %q", c[1], got, c[2])
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
