package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheStatusIsATableForPeople(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	limit := func(left int64) Announced {
		return Announced{Site: "api.test", Route: "GET /2/tweets/*", Title: "75 per 15m for GET /2/tweets/*", Limit: 75, Remaining: left, Reset: now.Add(555 * time.Second), Foreign: 0.25}
	}
	all := Tokens{
		Pools: []Pool{{Name: "twitter", Ready: 1, Tokens: []Token{
			{Label: "news/ü", State: "ready", Uses: 1234, Refusals: 1, Twins: []string{"twin"}, Limits: []Announced{limit(12), {Site: "api.test", Route: "GET /1", Limit: -1, Remaining: -1, State: "learning"}}},
			{Label: "cool", State: "cooling", Until: now.Add(191*time.Second + 1), Why: "Retry-After", Uses: 75, Limits: []Announced{limit(0)}},
			{Label: "dead\x1b[2J\n" + strings.Repeat("x", 100), State: "quarantined", Until: now.Add(70 * time.Hour), Why: "401", Denials: 3},
			{Label: "off", State: "disabled", Routes: []Paused{{Route: "GET /x", State: "spent", Until: now.Add(time.Hour)}}},
			{Label: "twin", State: "ready", Twins: []string{"news/ü"}, Limits: []Announced{limit(12)}},
		}}, {Name: "none"}, {Name: "two sites", Ready: 1, Tokens: []Token{{Label: "a", State: "ready", Limits: []Announced{
			{Site: "a.test", Limit: 5, Remaining: -1}, {Site: "b.test", Limit: -1, Remaining: 7},
		}}}}},
		Limits: []Announced{{Site: "open.test", Title: "60 per 1m", Limit: 60, Remaining: 59, Reset: now.Add(-time.Minute)}},
	}.Normalize()
	s := Process{
		Version: "v1.2.3", Listen: "127.0.0.1:3128", Uptime: 3661.5, Checks: []Check{{Name: "proxy", Detail: "stopping\x1b"}, {Name: "store", OK: true}},
		Connections: &Connections{Clients: 2, Tunnels: 1}, SiteCount: 7, Total: Counts{Requests: 1, In: 1_500_000},
		Breakers: []Breaker{{Site: "ill.test", State: "open", Until: now.Add(time.Minute), Why: "it answered 502"}, {Site: "pool", Backend: "a.test", State: "half-open"}},
		Waiting:  &Waits{N: MaxHolds, More: true, Turns: "news (weight 3), b.test (priority 1)", List: []Wait{{Site: "api.test", Limit: "2 in flight", N: 2}, {Site: "b.test", N: 1, Until: now.Add(time.Second)}}},
	}
	var b strings.Builder
	s.Describe(&b)
	DescribeList(&b, "what is wrong", s.Troubles(all, nil, nil, AdviceList{}, now))
	all.Describe(&b, now)
	s.DescribeWaiting(&b, now)
	want := `abide v1.2.3 at 127.0.0.1:3128: not ready, up 1h1m1s
2 client connections, 1 tunnel
1 request to 7 sites; 1.5 MB received, 0 B sent

what is wrong

proxy: stopping?
ill.test: left alone: it answered 502 (tried again in 1 min 00 s)
pool / a.test: left alone: it failed
token dead?[2J?xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx of twitter: denied: 401 (tried again 4 March 2026, 10:00 UTC)

pool none: 0 of 0 tokens can go now

pool twitter: 1 of 5 tokens can go now

TOKEN                                                             STATE                            USES  REFUSED  DENIED  LIMIT                                            LEFT      RESETS
cool                                                              cooling for 3m12s (Retry-After)    75        0       0  75 per 15m for GET /2/tweets/*; others use 25 %  0 of 75   in 9m15s
dead?[2J?xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…  denied for 2d22h (401)              0        0       3  -                                                -         -
news/ü                                                            ready                            1234        1       0  GET /1                                           learning  -
                                                                                                                          75 per 15m for GET /2/tweets/*; others use 25 %  12 of 75  in 9m15s
off                                                               disabled                            0        0       0  -                                                -         -
twin                                                              ready                               0        0       0  75 per 15m for GET /2/tweets/*; others use 25 %  12 of 75  in 9m15s

one account: news/ü, twin

pool two sites: 1 of 1 token can go now

TOKEN  STATE  USES  REFUSED  DENIED  LIMIT                 LEFT    RESETS
a      ready     0        0       0  a.test: all requests  ? of 5  -
                                     b.test: all requests  7       -

limits learned without a token

SITE       LIMIT      LEFT      RESETS
open.test  60 per 1m  59 of 60  -

more than 10000 requests wait

SITE      REQUESTS  FOR          UNTIL
api.test         2  2 in flight  another is done
b.test           1  its turn     in 1 s
by priority (3 is usual), then in turn by weight: news (weight 3), b.test (priority 1)
`
	if want = strings.ReplaceAll(want, "dead?[2J?xxx", "dead [2J xxx"); b.String() != strings.Replace(want, "stopping?", "stopping ", 1) {
		t.Errorf("it is\n%s\nand should be\n%s", b.String(), want)
	}

	b.Reset()
	Process{Ready: true, Waiting: &Waits{}}.Describe(&b)
	Tokens{}.Describe(&b, now)
	Process{Waiting: &Waits{}}.DescribeWaiting(&b, now)
	Process{}.DescribeWaiting(&b, now)
	if want := "abide at : ready, up 0s\n0 requests to 0 sites; 0 B received, 0 B sent\n\nno request waits\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

func TestSpansAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "1s", time.Minute: "1m", time.Hour: "1h", time.Hour + time.Minute: "1h1m", time.Hour + time.Second: "1h0m1s", 10 * time.Minute: "10m",
		10 * time.Hour: "10h", 192 * time.Second: "3m12s", 47 * time.Hour: "47h", 49 * time.Hour: "2d1h", 20 * time.Second: "20s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %s, not %s", d, got, want)
		}
	}
}

func TestAFaultOfTheStoreIsToldOnce(t *testing.T) {
	const why = "dial tcp 127.0.0.1:1: connect: connection refused"
	s := Process{
		Ready: true, Checks: []Check{{Name: "store", OK: true, Degraded: true, Detail: "since noon: " + why}},
		Store: &Store{Kind: "shared", Since: midday, Err: why},
	}
	var b strings.Builder
	DescribeList(&b, "what is wrong", s.Troubles(Tokens{}, nil, nil, AdviceList{}, midday))
	s.DescribeStore(&b, midday.Add(time.Minute))
	if n := strings.Count(b.String(), why); n != 1 {
		t.Errorf("it is told %d times: %s", n, b.String())
	}
}

// TestSeveralTroublesSayTheFirstTimes: the first retry and the earliest start of all rows.
func TestSeveralTroublesSayTheFirstTimes(t *testing.T) {
	down := func(site, backend string, retry, since time.Duration) Breaker {
		return Breaker{Site: site, Backend: backend, State: "open", Why: "refused", Until: midday.Add(retry), Since: midday.Add(-since)}
	}
	for _, c := range []struct {
		breakers  []Breaker
		forecasts []Forecast
		want      string
	}{
		{
			[]Breaker{down("a.test", "", 26*time.Second, time.Minute), down("b.test", "", 2*time.Second, time.Second)},
			nil,
			"2 sites: left alone: refused: a.test, b.test (the first tried again in 2 s, the first since 11:59:00 UTC)",
		},
		{[]Breaker{down("p", "a", time.Second, 0), down("p", "b", time.Second, 0)}, nil, "2 backends: left alone: refused: p / a, p / b (the first tried again in 1 s, the first since 12:00:00 UTC)"},
		{[]Breaker{down("a.test", "", time.Second, 0)}, nil, "a.test: left alone: refused (tried again in 1 s, since 12:00:00 UTC)"},
		{
			nil,
			[]Forecast{{Site: "q.test", Limit: "9 per day", Of: "a", Opens: midday, Ends: midday.Add(25 * time.Hour)}, {Site: "q.test", Limit: "9 per day", Of: "b", Opens: midday.Add(-24 * time.Hour), Ends: midday.Add(time.Hour)}},
			"2 limits of q.test: 9 per day is used up: a, b (the first has more in 1 h 00 min)",
		},
	} {
		list := Process{Breakers: c.breakers}.Troubles(Tokens{}, c.forecasts, nil, AdviceList{}, midday)
		if len(list) != 1 || list[0].String() != c.want {
			t.Errorf("%v, want %s", list, c.want)
		}
	}
}

// TestManySitesThatWaitAlikeAreOneRow: with the true numbers, and a list that is cut says so.
func TestManySitesThatWaitAlikeAreOneRow(t *testing.T) {
	var holds []Hold
	for i := range 142 {
		for range 1 + i%2 {
			holds = append(holds, Hold{Site: fmt.Sprintf("s%03d.test", i), Limit: "1 request per 1s", Until: midday.Add(time.Duration(i+1) * time.Second)})
		}
	}
	for range 9 {
		holds = append(holds, Hold{Site: "a.test", Limit: "5 in flight"})
	}
	sum := SumWaits(holds)
	if len(sum.List) != 2 || sum.N != 222 || sum.More || sum.List[0].N != 213 || sum.List[0].Sites != 142 || sum.List[0].At() != "s001.test and 141 more" || sum.List[0].Ends(midday) != "in 1 s to 2 min 22 s" || sum.List[1].At() != "a.test" || sum.Most["s007.test"] != "1 request per 1s" {
		t.Errorf("%+v", sum)
	}
	holds = nil
	for i := range MaxListed + 1 {
		holds = append(holds, Hold{Site: fmt.Sprint(i), Limit: fmt.Sprint(i)})
	}
	if sum := SumWaits(holds); len(sum.List) != MaxListed || !sum.More {
		t.Error("the list is not whole, and does not say so")
	}
	var b strings.Builder
	Process{Waiting: SumWaits(holds)}.DescribeWaiting(&b, midday)
	if !strings.Contains(b.String(), "\n101 requests wait\n") {
		t.Error(b.String())
	}
}

func TestHowManyTokensCanGoDependsOnTheRoute(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	of := func(route string, left int64) Announced {
		return Announced{Site: "api.test", Route: route, Limit: 2, Remaining: left, Reset: now.Add(56 * time.Second)}
	}
	token := func(state string, limits ...Announced) Token { return Token{State: state, Limits: limits} }
	rests := Token{State: "cooling", Until: now.Add(30 * time.Second)}
	for _, c := range []struct {
		ready  int
		tokens []Token
		want   string
	}{
		{2, []Token{token("ready"), token("ready", of("GET /a", 1))}, "2 of 2 tokens can go now"},
		{0, []Token{token("spent", of("GET /a", 0))}, "0 of 1 token can go now for GET /a, the next in 56 s"},
		{2, []Token{token("ready", of("GET /a", 0), of("GET /b", 2)), token("ready", of("GET /a", 0))}, "0 of 2 tokens can go now for GET /a, the next in 56 s"},
		{2, []Token{token("ready", of("GET /a", 0), of("GET /a", 0), of("GET /b", 2)), token("ready", of("GET /b", 0))}, "1 of 2 tokens can go now for GET /a, GET /b"},
		{2, []Token{token("ready", Announced{Site: "b.test", Route: "GET /a", Limit: 2, Reset: now.Add(time.Minute)}), token("ready", of("GET /a", 0))}, "1 of 2 tokens can go now for api.test GET /a, b.test GET /a"},
		{0, []Token{token("spent", of("", 0)), rests}, "0 of 2 tokens can go now, the next in 30 s"},
		{1, []Token{token("ready", of("GET /a", 1)), rests}, "1 of 2 tokens can go now"},
		{0, []Token{{State: "disabled"}}, "0 of 1 token can go now"},
	} {
		if got := (Pool{Ready: c.ready, Count: len(c.tokens), Tokens: c.tokens}).Can(now); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestAWindowThatTheSiteDoesNotSayIsCalledMeasured(t *testing.T) {
	for want, a := range map[string]Announced{
		"5 requests per about 8s (measured)": {Title: "5 requests", Limit: 5, Window: 7.9},
		"6 requests per about 8s (measured)": {Title: "6 requests", Limit: 6, Window: 8.1},
		"5 requests":                         {Title: "5 requests", Limit: 5},
		"5 requests per 5s":                  {Title: "5 requests per 5s", Limit: 5, Window: 5},
		"core":                               {Title: "core", Limit: 5000, Window: 3600},
	} {
		if got := a.Label(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestMuchAdviceIsNotPrintedAtOnce: one piece more than the bound is.
func TestMuchAdviceIsNotPrintedAtOnce(t *testing.T) {
	for n, want := range map[int]string{5: "", 6: "6. ", 7: "2 more matter less: abide advise --all\n"} {
		var short, whole strings.Builder
		list := AdviceList{Advice: slices.Repeat([]Advice{{Text: "Wait."}}, n)}
		list.Describe(&short, false)
		list.Describe(&whole, true)
		if strings.Count(short.String(), "Wait.") != min(n, 6)-max(n-6, 0) || !strings.Contains(short.String(), want) || strings.Count(whole.String(), "Wait.") != n {
			t.Errorf("%d: %s", n, short.String())
		}
	}
}
