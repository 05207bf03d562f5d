package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/status"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// crowd has so many sites and tokens, and as many requests that wait as are counted.
func crowd(sites, tokens int) *Facts {
	f := &Facts{Samples: history.Snapshot{End: noon.Add(history.Step), Sites: map[string]history.Course{}, Tokens: map[history.TokenKey]history.Timeline{}}}
	points := make([]float32, history.Points)
	for i := range points {
		points[i] = float32(i * 7 % 13)
	}
	f.Samples.Total, f.Samples.Waiting = history.Course{Now: status.Rate{Requests: 42}, Requests: points}, points
	for i := range sites {
		site := status.Site{Counts: status.Counts{Name: fmt.Sprintf("site-%04d.test", i), Requests: uint64(i)}}
		for n := range 4 {
			site.Limits = append(site.Limits, status.Limit{Limit: fmt.Sprint(n, " requests per 1m"), Amount: 60, Left: int64(15 * n), Unit: "requests"})
		}
		f.Known = append(f.Known, site)
		f.Samples.Sites[site.Name] = history.Course{Now: status.Rate{Requests: 1}, Requests: points}
	}
	pool := status.Pool{Name: "api", Count: tokens}
	for i := range tokens {
		t := status.Token{Label: fmt.Sprintf("token-%03d", i), State: "ready", Limits: []status.Announced{{Site: "a.test", Limit: 75, Remaining: int64(i % 75), Reset: noon.Add(time.Duration(i%14) * time.Minute)}}}
		if i%3 == 0 {
			t.State, t.Until = "cooling", noon.Add(time.Duration(i%20)*time.Minute)
		}
		pool.Tokens = append(pool.Tokens, t)
		var past history.Timeline
		for n := range past {
			past[n] = history.State((n/3 + i) % 8)
		}
		f.Samples.Tokens[history.TokenKey{Pool: "api", Label: t.Label}] = past
	}
	f.Tokens = status.Tokens{Pools: []status.Pool{pool}}
	for i := range status.MaxHolds {
		f.Holds = append(f.Holds, status.Hold{Site: fmt.Sprintf("site-%04d.test", i%max(sites, 1)), Client: fmt.Sprint(i % 5), Priority: i % 8, Waited: float64(i), Expected: noon.Add(time.Minute)})
	}
	f.Waiting = status.SumWaits(f.Holds)
	return f
}

func BenchmarkAPageOfAThousandSitesAndTwoHundredTokens(b *testing.B) {
	f := crowd(1000, 200)
	for b.Loop() {
		Parts(f, noon)
	}
}

// rendered is the whole page.
func rendered(t *testing.T, f *Facts) string {
	t.Helper()
	return strings.ReplaceAll(string(Render(f, noon)), "<wbr>", "")
}

func TestThePageListsTheBusiestSitesUpToABound(t *testing.T) {
	f := crowd(1000, 200)
	text := rendered(t, f)
	if n := strings.Count(text, `name="do" value="pause"`); n != status.MaxListed || !strings.Contains(text, "<summary>95 more of 1\u202f000 sites</summary>") {
		t.Errorf("%d sites", n)
	}
	if n := strings.Count(text, `<svg class="timeline"`); n != status.MaxListed {
		t.Errorf("%d timelines", n)
	}
	if len(text) > 1<<20 {
		t.Errorf("the page has %d bytes", len(text))
	}
	f.Filter = "SITE-0007"
	if text := rendered(t, f); !strings.Contains(text, "site-0007.test</a>") || strings.Contains(text, "site-0008.test</a>") {
		t.Error("the filter lists other sites")
	}
}

// inOrder checks that texts are on a page, each after the one before.
func inOrder(t *testing.T, page string, texts ...string) {
	t.Helper()
	at := 0
	for _, one := range texts {
		next := strings.Index(page[at:], one)
		if next < 0 {
			t.Errorf("%q is not there, or before the text that it follows", one)
			continue
		}
		at += next
	}
}

// ill has something wrong of each kind.
func ill() *Facts {
	f := crowd(3, 0)
	f.Checks = []status.Check{{Name: "proxy", OK: true}, {Name: "store", OK: true, Degraded: true, Detail: "it is away"}}
	f.Breakers = []status.Breaker{{Site: "down.test", State: "open", Why: "connection refused", Until: noon.Add(20 * time.Second), Since: noon}}
	denied := func(label, why string) status.Token {
		return status.Token{Label: label, State: "quarantined", Why: why, Until: noon.Add(time.Minute)}
	}
	f.Tokens.Pools = []status.Pool{
		{Name: "api", Ready: 1, Count: 6, Tokens: []status.Token{
			denied("ann", "402"), denied("bob", "402"), denied("carol", "401"),
			{Label: "well", State: "ready"},
			{Label: "late", State: "cooling", Until: noon.Add(time.Minute)},
			{Label: "half", State: "ready", Routes: []status.Paused{{Route: "a.test", State: "quarantined", Why: "403"}, {Route: "b.test", State: "spent"}}},
		}},
		{Name: "dead", Count: 1, Tokens: []status.Token{{Label: "off", State: "disabled"}}},
	}
	f.Forecasts = []status.Forecast{{Site: "quota.test", Limit: "10 per day", Amount: 10, Used: 10, Opens: noon.Add(-time.Hour), Ends: noon.Add(23 * time.Hour)}}
	f.Jobs = []status.Job{{Name: "tweets", State: status.JobFailed, Units: status.JobUnits{Total: 9, Failed: 2}}}
	f.Paused = []status.SitePause{{Site: "paused.test", Pause: &status.Pause{Reason: "they <migrate>", Since: noon.Add(-time.Minute)}}}
	return f
}

func TestThePageAnswersInTheOrderInWhichAnOperatorAsks(t *testing.T) {
	f := ill()
	f.Proxy, f.Advice, f.Store = "http://127.0.0.1:3128", []status.Advice{{Text: "more tokens"}}, &status.Store{Kind: status.StoreShared}
	f.Tokens.Limits = []status.Announced{{Site: "a.test", Limit: 9, Remaining: 3}}
	f.Past.Periods = []Period{{Name: "hour", Step: time.Minute, Steps: 60}}
	inOrder(t, rendered(t, f), "What is wrong</h2>", "Waiting</h2>", "Flowing</h2>", "Advice <small>", "Sites <small>", "Tokens</h2>", "Jobs</h2>",
		"Limits</h2>", "Learned from sites</h3>", "Quotas</h3>", "Configured, with defaults</h3>", "Bandwidth</h2>", "Fleet</h2>", "Point a client at it</h2>")
	inOrder(t, rendered(t, &Facts{}), "Point a client at it</h2>", "Nothing is wrong</h2>", "Waiting</h2>")
}

func TestWhatDoesNotWorkAtAllIsFirst(t *testing.T) {
	text := rendered(t, ill())
	inOrder(t, text,
		`class="warm">store</th><td class="text">it is away</td>`,
		`class="bad"><a href="/?site=down.test">down.test</a></th><td class="text">left alone: connection refused</td><td><span class="whole">tried again in 20 s</span>, <span class="whole">since 12:00:00 UTC</span></td>`,
		`class="bad">2 tokens of api</th><td class="text">denied: 402: ann, bob</td><td><span class="whole">the first tried again in 1 min 00 s</span></td><td>`, `<input type="hidden" name="label" value="ann"><input type="hidden" name="label" value="bob"><button name="do" value="enable" title="A request goes with each as soon as one comes" data-done="2 tokens of api can go again: the next requests try them" aria-label="Try 2 tokens of api again now">Try all now</button>`,
		`class="bad">token carol of api</th><td class="text">denied: 401</td>`, `aria-label="Try carol again now"`,
		`class="bad">token half of api</th><td class="text">denied for a.test: 403</td>`,

		`class="bad">pool dead</th><td class="text">none of its tokens can go: all are denied or disabled</td>`,
		`class="warm"><a href="/?site=quota.test">quota.test</a></th><td class="text">10 per day is used up</td><td><span class="whole">has more in 23 h 00 min</span></td>`,
		`class="warm"><a href="/?site=paused.test">paused.test</a></th><td class="text">paused 1 min 00 s ago: they &lt;migrate&gt;</td><td><span class="whole">until it is resumed</span></td>`, `aria-label="Resume paused.test"`,
	)
	if strings.Contains(text, "token late") || strings.Contains(text, "denied for b.test") {
		t.Error("a token that goes by itself is called wrong")
	}
}

func TestTheLimitThatHoldsIsShownAndNoneThatIsUnused(t *testing.T) {
	learnt := []*learned{{Announced: status.Announced{Site: "a.test", Title: "20 per 1m", Limit: 20}}}
	flying := status.Limit{Limit: "32 in flight", Amount: 32, Left: 32}
	for _, one := range []struct {
		by     string
		limits []status.Limit
		want   *limitBar
	}{
		{"", []status.Limit{{Site: "a.test", Limit: "10000 per month", Amount: 10_000, Left: 9_990}}, &limitBar{Site: "a.test", Name: "20 per 1m", Left: "0 of 20 left", Used: 100}},
		{"", []status.Limit{{Site: "a.test", Limit: "50 per day", Amount: 50, Left: 0}}, &limitBar{Site: "a.test", Name: "20 per 1m", Left: "0 of 20 left", Used: 100}},
		{"", []status.Limit{flying}, nil},
		{"60 requests of news-06", []status.Limit{flying}, &limitBar{Name: "60 requests of news-06", Used: -1, Holds: true}},
		{"6 per 1s", []status.Limit{flying, {Limit: "6 per 1s", Amount: 6, Left: 0}}, &limitBar{Name: "6 per 1s", Left: "0 of 6 left", Used: 100, Holds: true}},
		{"40 per 1m of a", []status.Limit{{Limit: "40 per 1m", Of: "a", Amount: 40}, {Limit: "40 per 1m", Of: "b", Amount: 40, Left: 20}}, &limitBar{Name: "40 per 1m of a", Left: "20 of 80 left", Used: 75, Holds: true}},
		{"", []status.Limit{flying, {Limit: "40 per 1m", Of: "a", Amount: 40, Left: 10}, {Limit: "40 per 1m", Of: "b", Amount: 40, Left: 30}}, &limitBar{Name: "40 per 1m, 2 together", Left: "40 of 80 left", Used: 50}},
	} {
		site := status.Site{LimitedBy: one.by, Limits: one.limits}
		if one.limits[0].Site != "" {
			site.Name = one.limits[0].Site
		}
		got := limitingBar(&site, learnt, noon)
		if (got == nil) != (one.want == nil) || got != nil && *got != *one.want {
			t.Errorf("by %q: %+v", one.by, got)
		}
	}
}

func TestHealthyTokensAreOneLine(t *testing.T) {
	f := crowd(1, 25)
	f.Tokens.Pools[0].Ready = 16
	inOrder(t, rendered(t, f), `<summary><b>api</b> 16 of 25 tokens can go now <span class="legend"><span><i class="t-ready"></i>16 ready</span> <span><i class="t-cooling"></i>9 cooling</span>`, "</summary>", ">token-000<", "</details>")
}

// TestLimitsOfTokensAreNamedOnce: above the rows, which have the notes and the names that differ.
func TestLimitsOfTokensAreNamedOnce(t *testing.T) {
	five, day := status.Announced{Site: "a.test", Title: "5 per 1s", Limit: 5, Remaining: 1}, status.Announced{Site: "a.test", Title: "90 per day", Limit: 90, Remaining: 80}
	others := five
	others.Foreign = .5
	f := &Facts{Tokens: status.Tokens{Pools: []status.Pool{{Name: "p", Count: 3, Tokens: []status.Token{
		{Label: "0", State: "ready", Limits: []status.Announced{{Site: "a.test", Title: "5 per 1s, measured", Limit: 5, Remaining: 1}, day}}, {Label: "a", State: "quarantined", Limits: []status.Announced{five, day}}, {Label: "b", State: "ready", Limits: []status.Announced{day, others}}, {Label: "c", State: "ready", Limits: []status.Announced{{Site: "a.test", Title: "7 per 1m", Limit: 7}}},
	}}}}}
	text := rendered(t, f)
	_, text, _ = strings.Cut(text, `<table class="stack tokens">`)
	text, _, _ = strings.Cut(text, "</table>")
	inOrder(t, text, "Left of 5 per 1s; 90 per day</th>", ">a</th>", `<div class="limit"><span>1 of 5 left</span></div>`, "80 of 90 left</span></div>", ">0</th>", "<small>5 per 1s, measured</small>", ">b</th>", "1 of 5 left</span> <small>others use 50 %</small></div>", ">c</th>", "<small>7 per 1m</small>")
	if strings.Count(text, "5 per 1s") != 2 {
		t.Error("a limit is named in each row")
	}
}

// TestAnOpenedPoolIsShort: tokens in the same state are one line, and each token is folded below.
func TestAnOpenedPoolIsShort(t *testing.T) {
	f := &Facts{}
	pool := status.Pool{Name: "big", Ready: 1, Count: 200, Tokens: []status.Token{{Label: "well", State: "ready"}}}
	for i := range 199 {
		pool.Tokens = append(pool.Tokens, status.Token{Label: fmt.Sprint("s", i), State: "spent", Why: "nothing is left", Until: noon.Add(time.Duration(i+12) * time.Second)})
	}
	f.Tokens.Pools = []status.Pool{pool}
	inOrder(t, rendered(t, f), `<ul class="alike">`, `<b class="t-word ready">1 ready</b></li>`, `<b class="t-word spent">199 spent</b>: the first free in 12 s, the last in 3 min 30 s</li>`, `<details data-key="tokens of big">`, "<summary>Each token</summary>", `<table class="stack tokens">`)
}

func TestLearnedLimitsOfAllTokensAreOneLine(t *testing.T) {
	a := status.Announced{Site: "a.test", Title: "75 per 15m", Limit: 75, Remaining: 5, Reset: noon.Add(time.Minute)}
	later := a
	later.Remaining, later.Reset = 25, noon.Add(time.Hour)
	shared := []status.Announced{{Site: "b.test", Limit: 10, Remaining: 4}}
	f := &Facts{Tokens: status.Tokens{
		Pools:  []status.Pool{{Name: "p", Tokens: []status.Token{{Label: "x", Limits: []status.Announced{later}}, {Label: "y", Limits: []status.Announced{a}}, {Label: "t", Twins: []string{"u"}, Limits: shared}, {Label: "u", Twins: []string{"t"}, Limits: shared}}}},
		Limits: []status.Announced{{Site: "c.test", Limit: 20, Remaining: -1, State: status.Hidden, Window: 1}},
	}}
	var got []limitBar
	for _, one := range learnedOf(f, noon) {
		got = append(got, one.bar(noon))
	}
	want := []limitBar{
		{Site: "a.test", Name: "75 per 15m, 2 tokens together", Left: "30 of 150 left", In: "in 1 min 00 s", Used: 80},
		{Site: "b.test", Name: "all requests", Left: "4 of 10 left", Used: 60},
		{Site: "c.test", Name: "about 20 in 1s, not announced", Left: "-", Used: -1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestPeriodsWithTooLittleHistoryAreNotDrawn(t *testing.T) {
	f := &Facts{}
	for _, one := range []Period{{Name: "hour", Step: time.Minute, Steps: 60}, {Name: "day", Step: time.Hour, Steps: 24}, {Name: "month", Step: 24 * time.Hour, Steps: 31}} {
		one.Since = noon.Add(-one.Step * time.Duration(one.Steps-1))
		one.Traffic = []status.Traffic{{Site: "a.test", Start: noon, In: 1000}}
		f.Past.Periods = append(f.Past.Periods, one)
	}
	f.Past.Periods[1].Traffic = append(f.Past.Periods[1].Traffic, status.Traffic{Site: "a.test", Start: noon.Add(-time.Hour), In: 1})
	text := rendered(t, f)
	inOrder(t, text, "Bandwidth</h2> 1.0 kB received, 0 B sent in the last hour</summary>", "Last hour", "Last day")
	if strings.Count(text, `<svg class="chart"`) != 2 {
		t.Error("the month is drawn")
	}
}

func TestTheAddressToCopyIsThatOfTheOpenListener(t *testing.T) {
	f := &Facts{Proxy: "http://127.0.0.1:3128", Open: "http://127.0.0.1:3129"}
	inOrder(t, rendered(t, f), "export HTTP_PROXY=http://127.0.0.1:3129 HTTPS_PROXY=http://127.0.0.1:3129\n", "At <code>http://127.0.0.1:3128</code> the setting")
	f.Open = ""
	inOrder(t, rendered(t, f), "export HTTP_PROXY=http://127.0.0.1:3128 HTTPS_PROXY=http://127.0.0.1:3128\n")
}

// TestAPoolSaysOneThingOfATokenOfWhichALimitIsUsedUp: it is not ready beside "0 can go".
func TestAPoolSaysOneThingOfATokenOfWhichALimitIsUsedUp(t *testing.T) {
	pool := status.Pool{Name: "api", Ready: 2, Count: 2}
	for _, label := range []string{"a", "b"} {
		pool.Tokens = append(pool.Tokens, status.Token{Label: label, State: "ready", Limits: []status.Announced{{Site: "a.test", Route: "GET /a", Limit: 5, Reset: noon.Add(time.Minute)}}})
	}
	text := rendered(t, &Facts{Tokens: status.Tokens{Pools: []status.Pool{pool}}})
	inOrder(t, text, "0 of 2 tokens can go now for GET /a, the next in 1 min 00 s", `<i class="t-partly"></i>2 partly ready</span>`, `<b class="t-word ready">2 partly ready</b>`)
	if strings.Contains(text, "2 ready<") {
		t.Error("they are called ready")
	}
}

// TestATokenOfWhichAWrittenLimitIsUsedUpIsSpent: in the count, by its reason, and in its row, which is above those that can go.
func TestATokenOfWhichAWrittenLimitIsUsedUpIsSpent(t *testing.T) {
	tokenLimits := func(left int64, reset time.Time) []status.Limit {
		return []status.Limit{{Site: "a.test", Limit: "3 requests per 10s by token", Of: "a", Amount: 3, Left: left, By: "token", Reset: reset}}
	}
	pool := status.Pool{Name: "api", Ready: 1, Count: 2, Tokens: []status.Token{
		{Label: "a", State: "ready", Written: tokenLimits(1, time.Time{})},
		{Label: "b", State: "spent", Until: noon.Add(5 * time.Second), Why: "nothing is left", Written: tokenLimits(0, noon.Add(5*time.Second))},
	}}
	text := rendered(t, &Facts{Tokens: status.Tokens{Pools: []status.Pool{pool}}})
	inOrder(t, text, "1 of 2 tokens can go now", "1 ready</span>", "1 spent</span>", `<b class="t-word spent">1 spent</b>: 3 requests per 10s by token; free in 5 s; b`, ">b</th>", `0 of 3 left, <span class="whole">resets in 5 s</span>`, ">a</th>", "1 of 3 left")
}

func TestAHealthyCircuitIsOK(t *testing.T) {
	f := &Facts{Known: []status.Site{{Counts: status.Counts{Name: "a.test"}, Breaker: "closed"}, {Counts: status.Counts{Name: "b.test"}, Breaker: "open"}}}
	text := rendered(t, f)
	inOrder(t, text, `<td><span class="faint">ok</span><form`, `<td><span class="bad" title="It failed, so no request goes to it for a time. Then one is sent as a trial">left alone</span><form`)
	if strings.Contains(text, "closed") {
		t.Error("a circuit is called closed")
	}
}

func TestEveryPartIsInThePageAsItIsSent(t *testing.T) {
	f := crowd(3, 3)
	f.Filter = f.Known[0].Name
	f.Chosen = &Chosen{Site: f.Filter}
	text := rendered(t, f)
	parts := Parts(f, noon)
	if len(parts) != 14 {
		t.Errorf("%d parts", len(parts))
	}
	for _, one := range parts {
		if !strings.Contains(text, fmt.Sprintf("id=%q", one.Name)) || !strings.Contains(text, strings.ReplaceAll(one.HTML, "<wbr>", "")) {
			t.Errorf("the page does not have the part %s", one.Name)
		}
	}
}

func TestAnEmptyPageSaysHowToBegin(t *testing.T) {
	text := rendered(t, &Facts{Proxy: "http://127.0.0.1:3128"})
	for _, want := range []string{"No request has come yet.", "No request waits.", "<details open>", "HTTP_PROXY=http://127.0.0.1:3128"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, never := range []string{"h-tokens", "h-advice", "h-jobs", "h-bandwidth", "What is wrong", "h-limits", "NaN", "%!"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %s", never)
		}
	}
}

func TestAdviceIsShownWhereThereIsSome(t *testing.T) {
	f := &Facts{Advice: []status.Advice{{Text: "it is <slow>", Change: "make it fast"}}}
	if text := rendered(t, f); !strings.Contains(text, "<li>it is &lt;slow&gt; <b>make it fast</b></li>") {
		t.Error(text)
	}
}

func TestASparkIsAPathThroughItsPoints(t *testing.T) {
	for _, one := range []struct {
		points []float32
		every  int
		line   string
		most   float64
	}{
		{nil, 1, "", 0},
		{[]float32{1}, 1, "", 0},
		{[]float32{0, 0, 0}, 1, "M0 20l1 0l1 0", 0},
		{[]float32{0, 4, 4, 2}, 1, "M0 20l1 -20l1 0l1 10", 4},
		{[]float32{0, 0, 4, 8}, 2, "M0 20l1 -20", 6},
		{[]float32{0, 0.0001, 1000}, 1, "M0 20l1 -1l1 -19", 1000}, // a little is more than nothing
	} {
		if got := sparkOf(one.points, one.every); got.Line != one.line || got.Most != one.most {
			t.Errorf("%v: %q, at most %v", one.points, got.Line, got.Most)
		}
	}
}

// pathOf is the path of a state of a timeline.
func pathOf(list []stretch, state string) string {
	for _, one := range list {
		if one.State == state {
			return one.Path
		}
	}
	return ""
}

func TestATimelineShowsThePastAndWhatIsToCome(t *testing.T) {
	end := noon.Add(history.Step)
	var past history.Timeline
	for i := range past {
		past[i] = history.Ready
		if i >= 80 && i < 85 {
			past[i] = history.Used
		}
	}
	cooling := status.Token{Label: "a", State: "cooling", Until: end.Add(5 * time.Minute)}
	spent := status.Token{Label: "b", State: "spent", Until: end.Add(2 * time.Minute)}
	for _, one := range []struct {
		token *status.Token
		state string
		path  string
	}{
		{&cooling, "used", "M80 0h5v10h-5z"},
		{&cooling, "cooling", "M90 0h30v10h-30z"},
		{&cooling, "ready", "M0 0h80v10h-80zM85 0h5v10h-5zM120 0h60v10h-60z"},
		{&status.Token{State: "cooling", Until: noon.Add(-time.Hour)}, "cooling", ""},
		{&status.Token{State: "quarantined", Until: noon.Add(time.Hour)}, "quarantined", "M90 0h90v10h-90z"},
		{&status.Token{State: "disabled"}, "disabled", "M90 0h90v10h-90z"},
		{&status.Token{State: "ready", Routes: []status.Paused{{Until: end.Add(time.Minute)}}}, "partly", "M90 0h6v10h-6z"},
		{&spent, "spent", "M90 0h12v10h-12z"},
	} {
		list, _ := timelineOf(one.token, past, noon, end)
		if got := pathOf(list, one.state); got != one.path {
			t.Errorf("%s of %+v: %q, want %q", one.state, one.token, got, one.path)
		}
	}
	if _, got := timelineOf(&cooling, past, noon, end); got != "a: cooling now; of the last 15 min in use for 50 s, not usable for 0 s" {
		t.Error(got)
	}
}

func TestAChartHasTheBytesOfItsPeriod(t *testing.T) {
	p := Period{Name: "hour", Since: noon, Step: time.Minute, Steps: 60}
	for i := range 9 {
		p.Traffic = append(p.Traffic, status.Traffic{Site: fmt.Sprint("<s", i), Start: noon.Add(time.Duration(i) * time.Minute), In: int64(100 * (9 - i)), Out: -1})
	}
	p.Traffic = append(p.Traffic, status.Traffic{Site: "s0", Start: noon.Add(-time.Minute), In: 1 << 40}, status.Traffic{Site: "s0", Start: noon.Add(time.Hour), In: 1 << 40})
	c := chartOf(p)
	if c.In != 4500 || c.Out != 0 || c.busy != 9 {
		t.Errorf("%d and %d bytes in %d steps", c.In, c.Out, c.busy)
	}
	inOrder(t, string(c.Drawn), "Last hour: 4.5 kB received, 0 B sent", "<title>2026-03-01 12:00 UTC, &lt;s0: 900 B</title>")
	if strings.Contains(string(c.Drawn), "<style") || strings.Contains(string(c.Drawn), "<s0") {
		t.Error("the chart has a style or a name that is not escaped")
	}
}

func TestAProblemIsAPage(t *testing.T) {
	text := string(Problem(status.Problem{Title: "Bad Request", Detail: "body:3: limits[0]: is <i>", Faults: []status.Fault{{Line: 3, Key: "limits[0]", Text: "is <i>"}}}))
	if strings.Contains(text, "body:3") || !strings.Contains(text, "line 3: limits[0]: is &lt;i&gt;") {
		t.Error(text)
	}
}

// TestThePageOfASiteIsAboutThatSite: each panel, and what is about no site.
func TestThePageOfASiteIsAboutThatSite(t *testing.T) {
	f := ill()
	for _, site := range []string{"site-0001.test", "other.test"} {
		f.Known = append(f.Known, status.Site{Counts: status.Counts{Name: site, Requests: 7}, Pool: "pool of " + site})
		f.Checks = append(f.Checks, status.Check{Name: site, OK: true, Degraded: true, Detail: site + " blocks"})
		f.Breakers = append(f.Breakers, status.Breaker{Site: site, State: "open"})
		f.Holds = append(f.Holds, status.Hold{Site: site, Client: "client of " + site})
		f.Forecasts = append(f.Forecasts, status.Forecast{Site: site, Limit: "quota of " + site, Opens: noon, Ends: noon.Add(48 * time.Hour)})
		f.Advice = append(f.Advice, status.Advice{Site: site, Text: "advice for " + site})
		f.Tokens.Pools = append(f.Tokens.Pools, status.Pool{Name: "pool of " + site})
		f.Tokens.Limits = append(f.Tokens.Limits, status.Announced{Site: site, Title: "limit of " + site})
		f.Failures.Add(site, "403", 7)
	}
	f.Failures.Add("", "breaker", 9)
	f.Waiting = status.SumWaits(f.Holds)
	if all := rendered(t, f); strings.Count(all, "other.test") < 9 || !strings.Contains(all, "by abide: breaker") {
		t.Error("the page of all sites lacks some")
	}
	f.Filter = "site-0001.test"
	text := rendered(t, f)
	for _, want := range []string{"site-0001.test blocks", "left alone", "client of site-0001.test", "quota of site-0001.test", "advice for site-0001.test", "<b>pool of site-0001.test", "limit of site-0001.test", "403 (the site may block this crawler)</td><td>7</td>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of the site lacks %s", want)
		}
	}
	for _, never := range []string{"other.test", "site-0002", "down.test", "by abide: breaker"} {
		if strings.Contains(text, never) {
			t.Errorf("the page of the site has %s", never)
		}
	}
}

// TestAQuotaOfEachTokenIsOneLine: with the fullest of them.
func TestAQuotaOfEachTokenIsOneLine(t *testing.T) {
	f := &Facts{}
	for i := range 200 {
		f.Forecasts = append(f.Forecasts, status.Forecast{Site: "a.test", Limit: "1000 requests per month by token", Of: fmt.Sprint("t", i), Amount: 1000, Used: int64(i), Left: int64(1000 - i), Opens: noon.Add(-time.Hour), Ends: noon.Add(700 * time.Hour)})
	}
	got := quotasOf(f, noon)
	if len(got.Shown) != 1 || len(got.Folded) != 0 || got.Shown[0].Name != "1000 requests per month by token of t199, the fullest of 200" || got.Shown[0].Left != "801 of 1\u202f000 left" || got.Shown[0].Used != 20 {
		t.Errorf("%+v", got)
	}
}

// TestAdviceHasTheOrderOfAbideAdvise: the page has no order of its own, and does not repeat what is wrong.
func TestAdviceHasTheOrderOfAbideAdvise(t *testing.T) {
	f := &Facts{Advice: []status.Advice{{Rule: "outage", Text: "down"}, {Rule: "denied-token", Text: "denied"}, {Rule: "limit", Text: "raise"}, {Rule: "refuses-all", Text: "blocked"}}}
	text := rendered(t, f)
	inOrder(t, text, "<li>raise", "<li>blocked")
	if strings.Contains(text, "<li>down") || strings.Contains(text, "<li>denied") {
		t.Error("advice repeats what is wrong")
	}
}

func TestFormsOfASiteAreBelowWhatIsWrongAndWaits(t *testing.T) {
	f := ill()
	f.Failures.Add("a.test", "403", 7)
	f.Chosen = &Chosen{Site: "a.test", Limits: "limits: []\n"}
	inOrder(t, rendered(t, f), "What is wrong</h2>", "Waiting</h2>", "Flowing</h2>", "403 (the site may block this crawler)", `id="h-chosen"`, "Sites <small>")
}
