package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTokensOfALargePoolAreToldByStateAndReason: what is healthy in one line, what is spent with the range of the ends, what is
// dead with names, up to a bound.
func TestTokensOfALargePoolAreToldByStateAndReason(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	p := Pool{Name: "big", Ready: 6, Count: 218}
	for i := range 195 {
		reset := now.Add(12*time.Second + time.Duration(i)*828*time.Second/194)
		p.Tokens = append(p.Tokens, Token{Label: fmt.Sprint("s", i), State: "spent", Why: "nothing is left", Limits: []Announced{{Title: "20 requests per 15m", Limit: 20, Reset: reset}}})
	}
	for i := range 10 {
		p.Tokens = append(p.Tokens, Token{Label: fmt.Sprint("d", i), State: "quarantined", Why: "402: no credit", Until: now.Add(time.Hour)})
	}
	for range 5 {
		p.Tokens = append(p.Tokens, Token{Label: "w", State: "ready", Limits: []Announced{{Title: "20 requests per 15m", Limit: 20, Remaining: 3, Reset: now.Add(time.Minute)}}})
	}
	p.Tokens = append(p.Tokens, Token{Label: "half", State: "ready", Limits: []Announced{{Title: "5 per 1m for GET /a", Limit: 5, Reset: now.Add(30 * time.Second)}}})
	p.Tokens = append(p.Tokens, Token{Label: "off", State: "disabled"})
	for i := range 6 {
		p.Tokens = append(p.Tokens, Token{Label: fmt.Sprint("c", i), State: "cooling", Why: "Retry-After", Until: now.Add(time.Minute)})
	}
	var got []string
	for _, g := range p.Groups(now) {
		got = append(got, g.Tokens()+": "+g.Why(now))
	}
	if want := []string{
		"5 ready: ",
		"195 spent: 20 requests per 15m; the first free in 12 s, the last in 14 min 00 s",
		"10 denied: 402: no credit; tried again in 1 h 00 min; d0, d1, d2, d3, d4, d5, d6, d7 and 2 more",
		"6 cooling: Retry-After; free in 1 min 00 s",
		"1 partly ready: 5 per 1m for GET /a; free in 30 s; half",
		"1 disabled: off",
	}; !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	var b strings.Builder
	p.describe(&b, now)
	if text := b.String(); !strings.Contains(text, "\n5 ready\n195 spent: 20 requests") || strings.Contains(text, "TOKEN") {
		t.Error(text)
	}
	for i := range 50 {
		p.Tokens = append(p.Tokens, Token{Label: "x", State: "quarantined", Why: fmt.Sprint(i)})
	}
	if n := len(p.Groups(now)); n > mostGroups+1 {
		t.Errorf("%d groups", n)
	}
}

func TestManyChecksOfOneKindAreOneLine(t *testing.T) {
	list := []Check{{Name: "proxy", OK: true}}
	for i := range 5 {
		list = append(list, Check{Name: fmt.Sprint("s", i, ".test"), OK: true, Degraded: true, Detail: "it blocks"})
	}
	var b strings.Builder
	DescribeList(&b, "what is wrong", Process{Checks: list}.Troubles(Tokens{}, nil, nil, AdviceList{}, time.Time{}))
	if b.String() != "\nwhat is wrong\n\n5 checks: it blocks: s0.test, s1.test, s2.test and 2 more\n" {
		t.Error(b.String())
	}
}

// TestATokenHasNoLimitOfWhichNothingIsKnown: another token of the pool has it.
func TestATokenHasNoLimitOfWhichNothingIsKnown(t *testing.T) {
	token := Token{Label: "a", Limits: []Announced{
		{Title: "12 per 1m", Limit: -1, Remaining: -1, State: "unknown"},
		{Title: "40 per 1m", Limit: 40, Remaining: 3, State: "open"},
		{Title: HiddenTitle, Limit: -1, Remaining: -1, State: Hidden},
	}}
	if list := token.Normalize().Limits; len(list) != 2 || list[0].Title != "40 per 1m" {
		t.Errorf("%+v", list)
	}
}
