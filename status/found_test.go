package status

import "testing"

func TestALimitThatWasFoundSaysWhatWasFound(t *testing.T) {
	for _, c := range []struct {
		one         Announced
		label, left string
	}{
		{Announced{Title: "hidden", State: Hidden, Limit: 20, Remaining: -1, Window: 1}, "hidden, found: about 20 in 1s", "-"},
		{Announced{Title: "hidden", State: Hidden, Limit: 100, Remaining: 40, Window: 60}, "hidden, found: about 100 in 1m", "40 of 100"},
		{Announced{Title: "hidden", State: Hidden, Limit: 5, Remaining: 1}, "hidden, found: 5 at once", "1 of 5"},
		{Announced{Title: "hidden", State: Hidden, Limit: -1, Remaining: -1}, "hidden", "-"},
		{Announced{Title: "hidden", State: Hidden, Limit: -1, Remaining: -1, AtRandom: 0.068}, "refusals at random, 6.8 % of the requests", "-"},
		{Announced{Title: "20 per 1s", State: "open", Limit: 20, Remaining: 3, Window: 1}, "20 per 1s", "3 of 20"},
	} {
		if c.one.Label() != c.label || c.one.LeftText() != c.left {
			t.Errorf("%+v: %q, %q", c.one, c.one.Label(), c.one.LeftText())
		}
	}
}
