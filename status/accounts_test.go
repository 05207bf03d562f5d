package status

import (
	"slices"
	"testing"
	"time"
)

func TestTokensWhoseCountsMoveTogetherAreNamed(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	limit := func(foreign float64, reset time.Duration) []Announced {
		return []Announced{{Site: "api.test", Route: "GET /x", Limit: 75, Remaining: 12, Foreign: foreign, Reset: now.Add(reset)}}
	}
	p := Pool{Name: "p", Tokens: []Token{
		{Label: "b", Limits: limit(.5, time.Minute)},
		{Label: "a", Limits: limit(.4, time.Minute+time.Second)},
		{Label: "alone", Limits: limit(.5, 2*time.Minute)},
		{Label: "unused by others", Limits: limit(0, time.Minute)},
		{Label: "known", Twins: []string{"too"}, Limits: limit(.5, time.Minute)},
		{Label: "no window", Limits: []Announced{{Site: "api.test", Route: "GET /x", Foreign: .5}}},
	}}
	if got := p.Suspects(); len(got) != 1 || !slices.Equal(got[0], []string{"a", "b"}) {
		t.Errorf("they are %q", got)
	}
}
