package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/status"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func second(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// waits is what waits of a site since a time. It is not known until when.
func waits(site string, held int, since time.Time, until string) waitingSite {
	w := waitingSite{until: until}
	w.Site, w.Held, w.Since, w.Last = site, held, since, func() time.Time { return time.Time{} }
	return w
}

// waitingSince is what waits of one site since a second.
func waitingSince(n int) []waitingSite {
	return []waitingSite{waits("api.test", 7, second(n), ", the first until 12:00:40, limit: 3 requests per 5s")}
}

// TestALineSaysWhenTheLastGoes: nothing where that is when the first goes, and there is no line where all go within a second.
func TestALineSaysWhenTheLastGoes(t *testing.T) {
	together := strings.Replace(holdText, ", the first", "", 1)
	for ends, want := range map[int]string{100: holdText + "; the last goes at 12:01:40 (in 1m34s)", 40: together, 6: ""} {
		var report holdReport
		waiting := waitingSince(0)
		waiting[0].Last = func() time.Time { return second(ends) }
		if got := report.update(second(6), waiting); got != want {
			t.Errorf("%q", got)
		}
	}
}

const holdText = "abide holds 7 requests to api.test, the first until 12:00:40, limit: 3 requests per 5s"

func TestATerminalHasALineAboutAHoldOfFiveSeconds(t *testing.T) {
	report := holdReport{terminal: true}
	for now := range 120 {
		want := holdText
		if now < 5 {
			want = ""
		}
		if got := report.update(second(now), waitingSince(0)); got != want {
			t.Fatalf("after %d s: %q", now, got)
		}
	}
	if got := report.update(second(120), nil); got != "" {
		t.Errorf("afterwards: %q", got)
	}
	both := append(waitingSince(3), waits("first.test", 1, second(0), " until 12:01:00"))
	if got := report.update(second(10), both); got != "abide holds 1 request to first.test until 12:01:00; and to 1 other site" {
		t.Errorf("of two sites: %q", got)
	}
}

// TestALongHoldIsToldWhenItIsKnown: not when it is nearly over.
func TestALongHoldIsToldWhenItIsKnown(t *testing.T) {
	for goes, shown := range map[int]bool{4: false, 6: true} {
		var report holdReport
		waiting := waitingSince(0)
		waiting[0].Until = second(goes)
		if got := report.update(second(1), waiting); (got != "") != shown {
			t.Errorf("of %d s: %q", goes, got)
		}
	}
}

func TestTheLineIsErasedBeforeTheOnlyRequestGoes(t *testing.T) {
	report := holdReport{terminal: true}
	waitingSites := []waitingSite{waits("api.test", 1, second(0), "")}
	waitingSites[0].Until = second(10)
	for now, shown := range map[int]bool{6: true, 8: true, 9: false, 10: false} {
		if got := report.update(second(now), waitingSites); (got != "") != shown {
			t.Errorf("after %d s: %q", now, got)
		}
	}
	waitingSites[0].Held = 2
	if report.update(second(10), waitingSites) == "" {
		t.Error("of two requests")
	}
}

func TestWithoutATerminalThereIsALineForAHoldAndAtMostOneAMinute(t *testing.T) {
	var report holdReport
	var said []int
	for now := range 300 {
		var waiting []waitingSite
		switch {
		case now < 150:
			waiting = waitingSince(0)
		case now%30 > 10: // holds of ten seconds, every half minute
			waiting = waitingSince(now - now%30 + 5)
		}
		if report.update(second(now), waiting) != "" {
			said = append(said, now)
		}
	}
	if !slices.Equal(said, []int{5, 65, 130, 191, 251}) {
		t.Errorf("lines at %v", said)
	}
}

// TestWithoutATerminalALineThatIsNotTrueAnyMoreIsFollowedByAnother: as where each pause ends with another refusal. What
// stays true is said again whenever the hold lasts twice as long.
func TestWithoutATerminalALineThatIsNotTrueAnyMoreIsFollowedByAnother(t *testing.T) {
	for pause, want := range map[int][]int{10: {1, 61, 121, 181, 241, 301, 361, 421, 481, 541}, 100: {1, 61, 121, 200, 300, 400, 500}, 3600: {1, 61, 122, 244, 488}} {
		var report holdReport
		var said []int
		for now := 1; now < 600; now++ {
			waiting := waitingSince(0)
			waiting[0].Until = second(now - now%pause + pause)
			if report.update(second(now), waiting) != "" {
				said = append(said, now)
			}
		}
		if !slices.Equal(said, want) {
			t.Errorf("of pauses of %d s lines at %v, want %v", pause, said, want)
		}
	}
}

func written(s summary) string {
	var text bytes.Buffer
	s.write(&text)
	return text.String()
}

func TestASummaryOfAQuietRunIsOneLine(t *testing.T) {
	got := written(summary{took: 1234 * time.Millisecond, requests: 1, sites: 1})
	if got != "abide  1 request to 1 site in 1.2s\n" {
		t.Errorf("%q", got)
	}
}

func TestASummaryNamesTheLimitsThatHeldMostFirst(t *testing.T) {
	s := summary{
		took: 83 * time.Second, holding: 80 * time.Second, requests: 12, sites: 2, refusals: 3, unseen: 2,
		held: []sitelog.HeldTime{
			{Site: "api.test", Limit: "900 requests per 15m", Requests: 7, Total: 84 * time.Second, Longest: 40 * time.Second},
			{Site: "other.test", Limit: "cooldown", Requests: 1, Total: 2 * time.Second, Longest: 2 * time.Second},
			{Site: "other.test", Limit: "retry", Requests: 1, Total: time.Second, Longest: time.Second},
			{Site: "other.test", Limit: "2 in flight", Requests: 1, Total: time.Millisecond, Longest: time.Millisecond},
		},
		tokens:   []tokenUse{{"p", "alice", 6, ""}, {"p", "bob", 1, ""}, {"p", "carol", 1, "402: no credit"}},
		denied:   []status.DeniedToken{{Pool: "p", Label: "carol", Why: "402: no credit"}},
		failures: status.Failures{Codes: map[string][]status.CodeCount{"api.test": {{Code: 402, Answers: 1}, {Code: 403, Answers: 55}, {Code: 499, Answers: 9}}, "other.test": {{Code: 503, Answers: 2}}}, Own: map[string]uint64{"broken": 2}},
	}
	want := `abide    12 requests to 2 sites in 1m23s
refused  3 attempts by sites, of which the command saw 1; abide sent the other requests again
failed   api.test: 1 answer 402 (to be paid for), 55 answers 403 (the site may block this crawler)
         other.test: 2 answers 503
         answered or cut by abide itself: 2 broken, see docs/troubleshooting.md#which-answer-means-what
         9 requests given up by the command before the end of the answer: stopped, or at a time-out, see docs/crawlers.md#time-outs
held     7 requests, 12s each on average, the longest 40s: api.test, limit: 900 requests per 15m
         1 request, 2s: other.test, a pause after refusals or failures
         1 request, 1s: other.test, a pause before another attempt
         1 request, 0s: other.test, limit: 2 in flight
tokens   alice of p (6 attempts), bob of p (1 attempt), carol of p (1 attempt)
denied   carol of p (402: no credit): replace each or remove it from its pool
`
	if got := written(s); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
	s.failures.Open, s.failures.At, s.rejected = 9, []string{"api.test"}, 2
	want = strings.Replace(want, "9 requests given up by the command before the end of the answer: stopped, or at a time-out, see", "9 requests to api.test still open when the command ended (stopped, or at its time-out: see", 1)
	want = strings.Replace(want, "#time-outs\n", "#time-outs)\n", 1)
	want = strings.Replace(want, "failed ", "https    2 TLS handshakes failed, as a program does not trust abide's CA: in Python leave out verify=FILE and start it by REQUESTS_CA_BUNDLE=FILE abide run, Chromium needs --browsers, see docs/clients.md#certificates\nfailed ", 1)
	s.raise = "One more token in the pool p would raise 2/s to 3/s."
	want += "faster   first what is denied; then one more token in the pool p would raise 2/s to 3/s\n"
	if got := written(s); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
}

// TestACommandThatIsSlowByItselfIsToldSo: no limit makes it faster, such as that of the site, which held little.
func TestACommandThatIsSlowByItselfIsToldSo(t *testing.T) {
	h := sitelog.HeldTime{Site: "a.test", Limit: "30 per 6s", Requests: 16, Total: 52 * time.Second, Longest: 5 * time.Second}
	s := summary{took: 71 * time.Second, holding: 10 * time.Second, requests: 200, sites: 1, held: []sitelog.HeldTime{h}, raise: "The limit is the site's own."}
	const pace = "for 1m1s abide held no request: the command (its delays, the number of its clients) or the time of the answers set the pace"
	if got := s.advice(); got != pace {
		t.Error(got)
	}
	if s.failures.Own = map[string]uint64{"wait": 3}; s.advice() != "the limit is the site's own" {
		t.Errorf("of requests that abide did not hold: %s", s.advice())
	}
	if s.holding, s.failures.Own = 40*time.Second, nil; s.advice() != "the limit is the site's own" {
		t.Error(s.advice())
	}
	s = summary{took: 9 * time.Second, requests: 1, sites: 1}
	if got := s.advice(); got != "" {
		t.Errorf("of a short command: %s", got)
	}
}

// TestASiteThatFailedIsNamedWithItsReason: what it held was no limit, and no limit makes it faster.
func TestASiteThatFailedIsNamedWithItsReason(t *testing.T) {
	h := sitelog.HeldTime{Site: "a.test", Limit: "cooldown", Requests: 1, Total: 38 * time.Second, Longest: 38 * time.Second}
	s := summary{took: time.Minute, holding: 38 * time.Second, requests: 1, sites: 1, held: []sitelog.HeldTime{h}, broken: []status.Breaker{{Site: "a.test", Why: "the host name does not resolve"}}}
	want := "abide   1 request to 1 site in 1m0s\nfailed  a.test failed: the host name does not resolve\nheld    1 request, 38s: a.test let no request succeed\n"
	if got := written(s); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
	s.broken = nil // it works again
	want = "abide  1 request to 1 site in 1m0s\nheld   1 request, 38s: a.test, a pause after refusals or failures\n"
	if got := written(s); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
	s.outages, s.raise = map[string]sitelog.Outages{"a.test": {Times: 2, Lasted: 30 * time.Second, Why: "it answered 403"}}, "More requests would tell."
	want = "abide   1 request to 1 site in 1m0s\nfailed  a.test let no request succeed for 30s in all, 2 times; the last: it answered 403\nheld    1 request, 38s: a.test let no request succeed\n"
	if got := written(s); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
	s.learned = []status.Announced{{Site: "a.test", Blocked: true}} // a limit was found by that
	want += "faster  more requests would tell\n"
	if got := written(s); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
}

func TestARunWithoutRequestsIsToldWhyThatMayBe(t *testing.T) {
	for _, one := range []struct {
		s    summary
		want string
	}{
		{summary{}, "no request came through abide. The command may have sent none"},
		{summary{connects: 2, ports: 2}, "refused because egress.ports does not name the port (--egress-ports any allows each): 2"},
		{summary{connects: 2, rejected: 1}, "no request came through abide: 1 TLS handshake failed, as a program does not trust abide's CA"},
		{summary{connects: 2}, "2 connections came through abide, but no request in them"},
		{summary{connects: 2, unread: 1, unreadOf: []string{"a.test (intercept: none)"}}, "1 https connection passed unread and there was no other request, so no limit was kept: a.test (intercept: none); see docs/clients.md#https"},
	} {
		if got := written(one.s); !strings.Contains(got, one.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%+v: %q", one.s, got)
		}
	}
}

func TestARunFailsWhereRequestsHadNoAnswerOfTheirSites(t *testing.T) {
	for name, c := range map[string]struct {
		s    summary
		want bool
	}{
		"all were answered":            {summary{requests: 3, failures: status.Failures{Codes: map[string][]status.CodeCount{"a.test": {{Code: 404, Answers: 1}}}}}, false},
		"no answer was of use":         {summary{requests: 3, failures: status.Failures{Codes: map[string][]status.CodeCount{"a.test": {{Code: 402, Answers: 2}, {Code: 500, Answers: 1}}}}}, true},
		"nothing came":                 {summary{}, true},
		"abide answered":               {summary{requests: 3, failures: status.Failures{Own: map[string]uint64{"wait": 1}}}, true},
		"the command left":             {summary{requests: 3, failures: status.Failures{Codes: map[string][]status.CodeCount{"a.test": {{Code: 499, Answers: 1}}}}}, true},
		"the certificate was refused":  {summary{requests: 3, unread: 2, refused: 1}, true},
		"https passed by its settings": {summary{requests: 3, unread: 2}, false},
	} {
		if got := c.s.gaveUp(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestASummarySaysHowALimitBecameKnown(t *testing.T) {
	for _, c := range []struct {
		limit       status.Announced
		held, found string
	}{
		{status.Announced{Title: "6 requests", Limit: 6, Window: 9.2}, "limit: 6 requests per about 9s (measured), announced by the site", `6 in about 9s`},
		{status.Announced{Title: "6 requests", Limit: 6}, "limit: 6 requests, announced by the site", ``},
		{status.Announced{Title: "6 requests per 9s", Limit: 6, Window: 9}, "limit: 6 requests per 9s, announced by the site", ``},
		{status.Announced{Title: status.HiddenTitle + " for GET /a", State: status.Hidden, Limit: 20, Window: 1}, "limit: about 20 in 1s for GET /a, not announced, found by refusals", `about 20 in 1s`},
		{status.Announced{Title: status.HiddenTitle + " for GET /a", State: status.Hidden, Limit: -1}, "a limit that the site does not announce for GET /a, found by refusals", ``},
		{status.Announced{Title: "hidden", State: status.Hidden, Limit: -1}, "limit: hidden, found by refusals", ``},
		{status.Announced{Title: "hidden", State: status.Hidden, Limit: -1, AtRandom: 0.068}, "refusals at random, 6.8 % of the requests", "refusals at random, 6.8 % of the requests"},
	} {
		h := sitelog.HeldTime{Site: "a.test", Limit: c.limit.Title, Requests: 1, Total: 2 * time.Second, Longest: 2 * time.Second}
		c.limit.Site = h.Site
		s := summary{held: []sitelog.HeldTime{h}, learned: []status.Announced{c.limit}}
		if got := s.heldFor(h); got != "a.test, "+c.held {
			t.Errorf("%q, want %q", got, c.held)
		}
		if _, _, found := s.source(h); found != c.found {
			t.Errorf("%q, want %q", found, c.found)
		}
	}
}

// TestASummaryNamesTheLimitThatLetsNoMoreGo: where abide answered requests itself, as their wait would be too long.
func TestASummaryNamesTheLimitThatLetsNoMoreGo(t *testing.T) {
	s := summary{requests: 80, sites: 1, ended: noon, spent: []status.Announced{{Site: "api.test", Title: "60 requests", Limit: 60, Reset: noon.Add(3 * time.Hour)}}}
	if got := written(s); !strings.Contains(got, "failed  api.test: 60 requests, all used until 15:00:00 (in 3h0m0s)\n") {
		t.Error(got)
	}
	var file bytes.Buffer
	if err := s.writeJSON(&file); err != nil || !strings.Contains(file.String(), `"spent":[{"site":"api.test","title":"60 requests"`) {
		t.Errorf("%s %v", &file, err)
	}
	if s.outages = map[string]sitelog.Outages{"down.test": {Times: 1, Lasted: time.Minute, Why: "it answered 503"}}; s.writeJSON(&file) != nil || !strings.Contains(file.String(), `"outages":[{"seconds":60,"site":"down.test","times":1,"why":"it answered 503"}]`) {
		t.Errorf("%s", &file)
	}
}
