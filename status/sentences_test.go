package status

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAnExplanationExpectsNothingThatIsRefused(t *testing.T) {
	now := time.Now()
	for _, e := range []Explanation{
		{Breaker: "open", Expected: now.Add(time.Minute)},
		{Backends: []ExplainedBackend{{Backend: "a", Breaker: "open"}}, Expected: now.Add(time.Minute)},
	} {
		if got := e.Normalize(now); !got.Expected.IsZero() || !strings.Contains(got.BlockedBy, "503") {
			t.Errorf("%+v", got)
		}
	}
	if got := (Explanation{Observed: true, Limit: "x", Until: now.Add(time.Hour), Expected: now.Add(time.Hour)}).Normalize(now); !got.Expected.Equal(now) {
		t.Errorf("observed: %+v", got)
	}
}

// noon is now, wherever nothing else is said.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestAnExplanationInWords(t *testing.T) {
	in10 := noon.Add(10 * time.Minute)
	const gone = "nothing keeps it: it goes at once"
	for _, one := range []struct {
		what    string
		e       Explanation
		blocked string
		change  []string
	}{
		{"nothing", Explanation{Place: 1}, "", []string{gone}},
		{
			"limits that have enough",
			Explanation{Place: 1, Limits: []ExplainedLimit{{Limit: "2 in flight", Left: 1, Next: noon}}, Breaker: "closed"},
			"",
			[]string{gone},
		},
		{
			"a window",
			Explanation{Place: 1, Limit: "75 requests per 15m", Until: in10, Limits: []ExplainedLimit{{Limit: "75 requests per 15m", Next: in10}}},
			`"75 requests per 15m" has too little left, until 12:10:00 UTC (in 10 min 00 s)`,
			[]string{`raise the limit "75 requests per 15m"`},
		},
		{
			"a window of the site's",
			Explanation{Place: 1, Limit: "75 requests of alice", Until: in10, Limits: []ExplainedLimit{{Limit: "75 requests", Of: "alice", Learned: true, Keeps: true, Next: in10}}},
			`"75 requests of alice" has too little left, until 12:10:00 UTC (in 10 min 00 s)`,
			[]string{`"75 requests of alice" is the site's own; more tokens would share it`},
		},
		{
			"a window of a site without tokens",
			Explanation{Place: 1, Limit: "75 requests", Until: in10, Limits: []ExplainedLimit{{Limit: "75 requests", Learned: true, Keeps: true, Next: in10}}},
			`"75 requests" has too little left, until 12:10:00 UTC (in 10 min 00 s)`,
			[]string{`"75 requests" is the site's own; fewer requests, or an account of which the site allows more, would help`},
		},
		{
			"all tokens pause",
			Explanation{Place: 1, Limit: "token of any of 2 tokens of x", Why: "Retry-After", Until: in10, Limits: []ExplainedLimit{{Limit: "token", Of: "alice", Learned: true, Next: in10}}},
			`"token of any of 2 tokens of x" pauses (Retry-After), until 12:10:00 UTC (in 10 min 00 s)`,
			[]string{"the pause (Retry-After) ends at 12:10:00 UTC (in 10 min 00 s); more tokens would share it"},
		},
		{
			"a month",
			Explanation{Place: 1, Limit: "10 requests per month", Until: noon.AddDate(0, 1, 0)},
			`"10 requests per month" has too little left, until 1 April 2026, 12:00 UTC`,
			[]string{`raise the limit "10 requests per month"`},
		},
		{
			"what robots.txt asks for",
			Explanation{Place: 1, Limit: "Crawl-delay of 10 s", Until: in10},
			`"Crawl-delay of 10 s" has too little left, until 12:10:00 UTC (in 10 min 00 s)`,
			[]string{`"Crawl-delay of 10 s" is from the site's robots.txt: "robots: false" in its rule leaves it out, and the rule's own limits hold`},
		},
		{
			"what is in flight",
			Explanation{Place: 1, Limit: "2 in flight", Limits: []ExplainedLimit{{Limit: "2 in flight", InFlight: 2}}},
			`all of "2 in flight" is in use until another is done`,
			[]string{`raise the limit "2 in flight"`},
		},
		{
			"an answer of the store",
			Explanation{Place: 1, Limit: "75 requests per 15m", Asks: true, Limits: []ExplainedLimit{{Limit: "75 requests per 15m", Left: 75, Asks: true}}},
			`the store is asked what is left of "75 requests per 15m"`,
			[]string{"the answer of the store; nothing here changes that"},
		},
		{
			"a store that is away",
			Explanation{Place: 1, Limit: "75 requests per 15m", Asks: true, Away: true, Limits: []ExplainedLimit{{Limit: "75 requests per 15m", Asks: true}}},
			`the store is away, and "75 requests per 15m" waits until the store is back (outage: strict)`,
			[]string{"the answer of the store; nothing here changes that"},
		},
		{
			"others before it",
			Explanation{Place: 13, Limit: "75 requests per 15m", Until: in10, First: true},
			`12 others wait for "75 requests per 15m" before it`,
			[]string{`raise the limit "75 requests per 15m"`, "12 others are before it: a smaller Abide-Priority goes first"},
		},
		{
			"one other before it",
			Explanation{Place: 2, Limit: "2 in flight"},
			`all of "2 in flight" is in use until another is done`,
			[]string{`raise the limit "2 in flight"`, "1 other is before it: a smaller Abide-Priority goes first"},
		},
		{
			"others, for no limit",
			Explanation{Place: 2},
			"1 other is before it",
			[]string{"1 other is before it: a smaller Abide-Priority goes first"},
		},
		{
			"several limits",
			Explanation{Place: 1, Limit: "75 requests per 15m of news", Until: in10, Limits: []ExplainedLimit{
				{Limit: "75 requests per 15m", Of: "news", Next: in10},
				{Limit: "900 requests per 15m", Next: noon.Add(time.Minute)},
				{Limit: "2 in flight"},
				{Limit: "100 requests per day", Left: 1, Next: noon},
				{Limit: "api.test", Left: -1, Cooling: noon.Add(2 * time.Second), Why: "Retry-After"},
			}},
			`"75 requests per 15m of news" has too little left, until 12:10:00 UTC (in 10 min 00 s)`,
			[]string{
				`raise the limit "75 requests per 15m of news"`,
				`"900 requests per 15m" would keep it as well, until 12:01:00 UTC (in 1 min 00 s)`,
				`"2 in flight" would keep it as well, until another is done`,
				`"api.test" would keep it as well (Retry-After), until 12:00:02 UTC (in 2 s)`,
			},
		},
		{
			"a pause of the site",
			Explanation{Site: "api.test", Place: 1, Limit: "api.test", Why: "Retry-After", Until: in10},
			`"api.test" pauses (Retry-After), until 12:10:00 UTC (in 10 min 00 s)`,
			[]string{"the pause (Retry-After) ends at 12:10:00 UTC (in 10 min 00 s); nothing here changes that"},
		},
		{
			"a site that recovers",
			Explanation{Site: "api.test", Place: 1, Limit: "api.test", Why: "recovering after Retry-After"},
			`"api.test" pauses (recovering after Retry-After), until another is done`,
			[]string{"the pause (recovering after Retry-After) ends when another is done; nothing here changes that"},
		},
		{
			"more than there ever is",
			Explanation{Place: 1, Never: true, Limit: "10 cost per 1m"},
			`"10 cost per 1m" never has enough for what it costs, so it is refused`,
			[]string{`raise the limit "10 cost per 1m", or have it cost less`},
		},
		{
			"a breaker",
			Explanation{Site: "api.test", Place: 1, Breaker: "open", Tries: noon.Add(1500 * time.Millisecond)},
			"the breaker of the site is open, because it failed several times in a row: nothing goes, until 12:00:02 UTC (in 2 s), then single requests try it, and others wait for that or get 503",
			[]string{"the breaker lets one request try, and closes when that is answered; \"abide try api.test\" sends one at once"},
		},
		{"a site that answers all alike", Explanation{Place: 1, Breaker: Failing, Failed: "it answers 403 to all requests"}, "", []string{gone + ", but the site fails: it answers 403 to all requests"}},
		{"a breaker that tries", Explanation{Place: 1, Breaker: "half-open", Failed: "it answered 503"}, "", []string{"the site failed several times in a row (the last time because it answered 503): the next request tries it, and others wait for its answer"}},
		{
			"all backends",
			Explanation{Site: "api.test", Place: 1, Backends: []ExplainedBackend{
				{Backend: "a.test", Breaker: "open", Tries: in10}, {Backend: "b.test", Breaker: "open", Tries: noon.Add(time.Second)},
			}},
			"the breakers of all 2 backends are open, because they failed several times in a row: nothing goes, until 12:00:01 UTC (in 1 s), then single requests try them, and others wait for that or get 503",
			[]string{"the breaker lets one request try, and closes when that is answered; \"abide try api.test\" sends one at once"},
		},
		{
			"a backend",
			Explanation{
				Place: 1, Limit: "2 in flight",
				Backends: []ExplainedBackend{{Backend: "a.test", Breaker: "open"}, {Backend: "b.test"}},
			},
			`all of "2 in flight" is in use until another is done`,
			[]string{`raise the limit "2 in flight"`, "the breaker of a.test is open, so the other backends do its share"},
		},
		{
			"observe",
			Explanation{Place: 1, Observed: true, Limit: "2 in flight"},
			`all of "2 in flight" is in use until another is done; but mode is observe, so it goes at once`,
			[]string{gone},
		},
		{
			"a tunnel",
			Explanation{Place: 1, Target: "https://a.test:443", Limits: []ExplainedLimit{{Limit: "2 in flight", Left: 2, Next: noon}}},
			"",
			[]string{"it goes through a tunnel, where requests are not counted, unless intercept opens it", gone},
		},
		{"plain http", Explanation{Place: 1, Target: "http://a.test:80", Limits: []ExplainedLimit{{Limit: "2 in flight", Left: 2, Next: noon}}}, "", []string{gone}},
	} {
		got := one.e.Normalize(noon)
		if got.BlockedBy != one.blocked || !slices.Equal(got.WouldChange, one.change) {
			t.Errorf("%s:\n%s\n%q, want\n%s\n%q", one.what, got.BlockedBy, got.WouldChange, one.blocked, one.change)
		}
	}
}

func TestAnExplanationForATerminal(t *testing.T) {
	for _, one := range []struct {
		e    Explanation
		want string
	}{
		{Explanation{Place: 1}, `
now             0 requests wait, 0 in flight
blocked by      nothing
would change    nothing keeps it: it goes at once
`},
		{Explanation{Place: 1, Target: "https://a.test:443", Unread: "auto", OpenedAt: "127.0.0.1:8081", Limits: []ExplainedLimit{{Limit: "2 in flight", Left: 2, Next: noon}}}, `
CONNECT         intercepted for clients that use 127.0.0.1:8081 (abide env): their requests are seen
                for others it passes unread: intercept: auto, and no rule needs its requests
now             0 requests wait, 0 in flight
blocked by      nothing
would change    nothing keeps it: it goes at once
left            2 in flight: 2 left
`},
		{Explanation{
			Held: 1, InFlight: 2, Place: 2, Expected: noon.Add(10*time.Minute + 2*time.Second), Limit: "75 requests per 15m", Until: noon.Add(10 * time.Minute),
			Limits: []ExplainedLimit{
				{Limit: "a.test", Left: -1},
				{Limit: "75 requests per 15m", Next: noon.Add(10 * time.Minute), Held: 1, InFlight: 2},
				{Limit: "8 in flight", Of: "news", Left: 6, Next: noon, Held: 2},
				{Limit: "2 in flight"},
				{Limit: "9 per 1h", Left: 3, Cooling: noon.Add(time.Minute), Why: "Retry-After"},
				{Limit: "5 requests", Of: "carol", Left: 0, Cooling: noon.Add(time.Minute), Why: "quarantine", Keeps: true, Unused: true},
				{Limit: "5 requests", Of: "bob", Left: 5, Next: noon, GuessedWindow: 60},
				{Limit: "5 requests", Of: "dan", Left: 1, Next: noon, Unknown: true},
			},
			Breaker:  "half-open",
			Backends: []ExplainedBackend{{Backend: "b.test", InFlight: 1}, {Backend: "c.test", Breaker: "open"}},
		}, `
now             1 request waits, 2 in flight
blocked by      "75 requests per 15m" has too little left, until 12:10:00 UTC (in 10 min 00 s)
place           2
expected        12:10:02 UTC (in 10 min 02 s)
would change    raise the limit "75 requests per 15m"
                "2 in flight" would keep it as well, until another is done
                "9 per 1h" would keep it as well (Retry-After), until 12:01:00 UTC (in 1 min 00 s)
                1 other is before it: a smaller Abide-Priority goes first
                the breaker of c.test is open, so the other backends do its share
left            a.test: no pause
                75 requests per 15m: 0 left, enough at 12:10:00 UTC (in 10 min 00 s); 1 waits for it; 2 in flight
                8 in flight of news: 6 left; 2 wait for it
                2 in flight: 0 left, enough when another is done
                9 per 1h: pauses until 12:01:00 UTC (in 1 min 00 s) (Retry-After)
                5 requests of bob: 5 left; its window is not known yet, taken as 60 s
                5 requests of dan: not known, no answer has told
not used        5 requests of carol: pauses until 12:01:00 UTC (in 1 min 00 s) (quarantine)
breaker         on trial
backends        b.test: ok, 1 in flight
                c.test: left alone, 0 in flight
`},
		{Explanation{Limit: "9 per 1h", Place: 1, Until: noon.Add(time.Minute), Expected: noon.Add(time.Minute), Shared: true}, `
now             0 requests wait, 0 in flight
blocked by      "9 per 1h" has too little left, until 12:01:00 UTC (in 1 min 00 s)
place           1
expected        12:01:00 UTC (in 1 min 00 s) at the earliest: other processes use the limit, too
would change    raise the limit "9 per 1h"
`},
		{Explanation{Site: "a.test", Limit: "a.test", Place: 1, Why: "the site refuses everything", CanTry: true, Until: noon.Add(time.Minute), Expected: noon.Add(time.Minute)}, `
now             0 requests wait, 0 in flight
blocked by      "a.test" pauses (the site refuses everything), until 12:01:00 UTC (in 1 min 00 s)
place           1
expected        12:01:00 UTC (in 1 min 00 s), if the site accepts a request then
would change    the pause (the site refuses everything) ends at 12:01:00 UTC (in 1 min 00 s); "abide try a.test" sends one at once
`},
		{Explanation{Limit: "x\x1b[2J\ny", Place: 1}, `
now             0 requests wait, 0 in flight
blocked by      all of "x\x1b[2J\ny" is in use until another is done
place           1
expected        not known
would change    raise the limit "x\x1b[2J\ny"
`},
	} {
		var b strings.Builder
		one.e.Normalize(noon).Describe(&b, noon)
		if want := one.want[1:]; b.String() != want {
			t.Errorf("%s\nwant\n%s", b.String(), want)
		}
	}
}

// Whatever answers at the address of the listener cannot steer a terminal.
func TestAnExplanationOfAStrangerIsPlainText(t *testing.T) {
	evil := "\x1b]0;x\a\r\n\u202e"
	e := Explanation{
		BlockedBy: evil, WouldChange: []string{evil}, Breaker: evil, Place: 1,
		Limits: []ExplainedLimit{{Limit: evil, Of: evil, Why: evil, Cooling: noon.Add(time.Hour)}}, Backends: []ExplainedBackend{{Backend: evil, Breaker: evil}},
	}
	var b strings.Builder
	e.Describe(&b, noon)
	if strings.ContainsAny(b.String(), "\x1b\a\r\u202e") {
		t.Errorf("%q", b.String())
	}
	if n := strings.Count(b.String(), "\n"); n != 8 {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
}

func TestATokenThatIsAwayIsOneLineOfAnExplanation(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	e := Explanation{Limits: []ExplainedLimit{
		{Limit: "10 requests", Of: "dead", Left: 9, Unused: true},
		{Limit: "token", Of: "dead", Left: -1, Cooling: noon.Add(time.Hour), Why: "quarantine", Unused: true},
		{Limit: "10 requests", Of: "late", Left: 3, Unused: true},
	}}
	var b strings.Builder
	e.Describe(&b, noon)
	if text := b.String(); strings.Contains(text, "10 requests of dead") || !strings.Contains(text, "not used        token of dead: pauses until") || !strings.Contains(text, "10 requests of late: 3 left") {
		t.Error(text)
	}
}
