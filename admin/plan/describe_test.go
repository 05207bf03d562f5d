package plan

import (
	"strings"
	"testing"
	"time"
)

func TestAResultIsDescribedInAFewLines(t *testing.T) {
	r := &Result{
		Start: noon, Requests: 1_000_000, Answered: 1_000_000,
		Outcome:    Outcome{End: noon.Add(277 * time.Hour), Seconds: 277 * 3600, Finished: true, PerSecond: 1.0027, Refusals: Refusals{Site: 3, PassedOn: 1}},
		Throughput: []Bar{{Seconds: 6 * 3600, PerSecond: 2}, {Seconds: 6 * 3600}, {Seconds: 6 * 3600, PerSecond: 1}},
		LimitedBy: []Cause{
			{Kind: ByLimit, Site: "api.test", Limit: "900 requests per 15m", Share: .98},
			{Kind: BySite, Share: .018},
			{Kind: ByLimit, Site: "api.test", Limit: "32 in flight", Share: .002},
		},
		Waits:   Waits{Average: 20, Longest: 899},
		Notes:   []string{"one two"},
		WhatIfs: []WhatIf{{"one more token (5)", Outcome{Seconds: 200 * 3600, Finished: true}, 77 * 3600}, {Change: "never"}, {"worse", Outcome{Seconds: 278 * 3600, Finished: true}, -3600 * 2}},
	}
	var b strings.Builder
	r.Describe(&b)
	r.DescribeWhatIfs(&b)
	want := `ends        in 11 d 13 h, at 2026-03-13 01:00:00 UTC
            1 000 000 requests
throughput  1/s on average
            █ ▄
            each bar is 6 h 00 min, a full one 2/s
limited by   98 %  900 requests per 15m
              2 %  the time that answers take
waits       20 s on average, 14 min 59 s at most
refusals    3 expected from the site, 1 of these passed on to clients
note        one two
WHAT IF             ENDS IN           DIFFERENCE
one more token (5)  8 d 8 h           3 d 5 h sooner (28 %)
never               not all answered
worse               11 d 14 h         2 h 00 min later
`
	if got := strings.ReplaceAll(b.String(), "\u202f", " "); got != want {
		t.Errorf("\n%s", got)
	}
}

func TestLengthsOfTimeAreForPeople(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 ms", .0004: "0 ms", .3: "300 ms", 1.04: "1 s", 9.4: "9.4 s", 59.2: "59 s", 60: "1 min 00 s", 61: "1 min 01 s", 3600: "1 h 00 min", 86400 * 11: "11 d 0 h", 86400 + 7200: "1 d 2 h",
	} {
		if got := lengthOf(seconds); got != want {
			t.Errorf("%v s: %q", seconds, got)
		}
	}
}
