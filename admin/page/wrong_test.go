package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

// TestAFilterHidesNoTrouble: what is wrong elsewhere is counted, also in the title.
func TestAFilterHidesNoTrouble(t *testing.T) {
	f := ill()
	f.Total.Requests, f.Filter = 7, "site-0001"
	f.Checks, f.Tokens, f.Jobs = nil, status.Tokens{}, nil // they are about no site
	text := rendered(t, f)
	inOrder(t, text, `<title id="title">abide: 3 things are wrong</title>`, `about sites whose name has <b>site-0001</b>: <a href="/">all</a>`, `<h2 id="h-trouble">Nothing is wrong with sites whose name has site-0001</h2>`, `3 things are wrong with other sites or abide itself: <a href="/#trouble">show all</a>`)
	f.Filter = "down"
	inOrder(t, rendered(t, f), "What is wrong with sites whose name has down</h2>", "left alone", "2 things are wrong with other sites")
	f.Filter = ""
	if text := rendered(t, f); strings.Contains(text, "with other sites") || strings.Contains(text, "whose name has") {
		t.Error("the page of all sites speaks of others")
	}
	f.Filter = "nothere"
	if text := rendered(t, f); strings.Contains(text, "<details open>") {
		t.Error("a filter that leaves nothing makes abide new")
	}
}

// TestWhatIsFoldedIsNamed: of what is wrong, and a page of one site names it as it is.
func TestWhatIsFoldedIsNamed(t *testing.T) {
	f := &Facts{Filter: "a.test", Known: []status.Site{{Counts: status.Counts{Name: "a.test"}}}}
	for _, one := range []string{"b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"} {
		f.Paused = append(f.Paused, status.SitePause{Site: one + ".a.test", Pause: &status.Pause{Reason: one, Since: noon}})
	}
	inOrder(t, rendered(t, f), "about <b>a.test</b>:", "What is wrong with a.test</h2>", "<summary>4 more: j.a.test, k.a.test, l.a.test and others</summary>")
}

func TestWhatCameBeforeTheStartIsKnown(t *testing.T) {
	f := &Facts{Proxy: "http://127.0.0.1:3128", Past: Past{Periods: []Period{{Name: "hour", Step: time.Minute, Steps: 60}}}}
	f.Started = noon
	text := rendered(t, f)
	inOrder(t, text, "None since 12:00:00 UTC, when abide started.", "Point a client at it")
	if strings.Contains(text, "<details open>") || strings.Contains(text, "No request has come yet") {
		t.Error("it begins anew")
	}
}

// TestWhatFailedIsToldOnce: by site and reason, with what abide answered itself.
func TestWhatFailedIsToldOnce(t *testing.T) {
	f := &Facts{}
	f.Failures.Add("a.test", "429: by abide: wait", 24785)
	f.Failures.Add("a.test", "499: 8.8s", 12)
	f.Failures.Add("b.test", "403", 7)
	f.Failures.Add("", "wait", 24785)
	f.Failures.Add("", "stalled", 3)
	text := rendered(t, f)
	const docs = `<a href="https://github.com/abide-proxy/abide/blob/main/docs/`
	inOrder(t, text, `<a href="/?site=a.test">a.test</a></th><td class="text">`+docs+`troubleshooting.md#wait">429 by abide: wait</a></td><td>24 785</td>`,
		docs+`crawlers.md#time-outs">given up by clients after 8.8 s</a></td><td>12</td>`, `403 (the site may block this crawler)</td><td>7</td>`, `by abide: stalled`, `<td>3</td>`)
	if strings.Count(text, "785") != 1 {
		t.Error("it is told twice")
	}
	if got := string(linked("<b> see docs/crawlers.md#time-outs.")); got != `&lt;b&gt; see `+docs+`crawlers.md#time-outs">docs time-outs</a>.` {
		t.Error(got)
	}
}

// TestWhatClientsLoseIsWrong: whoever refused it, and the state of the site says so. What is over is not wrong any more.
func TestWhatClientsLoseIsWrong(t *testing.T) {
	f := &Facts{Advice: []status.Advice{
		{Rule: status.OwnAnswers, Site: "c.test", Weight: 1, Lately: true, Text: "c.test: abide itself answered 90 of 95 requests with the wait; most waited for 6 requests per 1m.", Change: "Allow a longer wait."},
		{Rule: status.GivenUp, Site: "a.test", Weight: 1, Lately: true, Text: "a.test: clients gave up 83 of 500 requests after 8.8s.", Change: "Give the client a longer time-out."},
		{Rule: status.GivenUp, Site: "b.test", Weight: 0.2, Lately: true, Text: "b.test: clients gave up 5 of 500 requests after 8.8s."},
		{Rule: status.OwnAnswers, Site: "d.test", Weight: 1, Text: "d.test: abide itself answered 90 of 95 requests with the wait."},
	}}
	for _, name := range []string{"a.test", "b.test", "c.test", "d.test"} {
		f.Known = append(f.Known, status.Site{Counts: status.Counts{Name: name}, Held: 1})
	}
	f.Known[1].Held = 0
	text := rendered(t, f)
	inOrder(t, text, `class="bad"><a href="/?site=c.test">c.test</a></th><td class="text">abide itself answered 90 of 95 requests with the wait; most waited for 6 requests per 1m. Allow a longer wait.</td>`,
		`class="bad"><a href="/?site=a.test">a.test</a></th><td class="text">clients gave up 83 of 500 requests after 8.8s. Give the client a longer time-out.</td>`,
		`ordered by`, `<a href="/?site=c.test">`, `loses requests`, `<a href="/?site=a.test">`, `loses requests`, `<a href="/?site=d.test">`, `ok</span>`, `<a href="/?site=b.test">`, `ok</span>`)
	if !strings.Contains(text, "abide: 2 things are wrong") {
		t.Error("a few, or what is over, are called wrong")
	}
}

// TestSitesThatAreFoldedAndWrongAreCounted: also those that are not listed.
func TestSitesThatAreFoldedAndWrongAreCounted(t *testing.T) {
	f := crowd(150, 0)
	for i := range 130 {
		f.Breakers = append(f.Breakers, status.Breaker{Site: f.Known[i].Name, State: "open"})
	}
	inOrder(t, rendered(t, f), `95 more of 150 sites, <span class="bad">something is wrong with 125 of them</span></summary>`)
	f.Breakers = f.Breakers[:5]
	if text := rendered(t, f); strings.Contains(text, "something is wrong with") {
		t.Error("those that are shown are counted")
	}
}

// TestAPausedSiteSaysUntilWhen: in its panel.
func TestAPausedSiteSaysUntilWhen(t *testing.T) {
	f := &Facts{Filter: "a.test", Chosen: &Chosen{Site: "a.test"}, Known: []status.Site{{Counts: status.Counts{Name: "a.test"}, Paused: &status.Pause{Reason: "they move", Until: noon.Add(time.Hour)}}}}
	inOrder(t, rendered(t, f), "<h3>Paused</h3>", "they move", "It ends in 1 h 00 min.")
	f.Known[0].Paused.Until = time.Time{}
	inOrder(t, rendered(t, f), "they move", "Until it is resumed.")
}

// TestASiteThatBlocksIsTriedAgainAtATime: by the pause for which its requests wait.
func TestASiteThatBlocksIsTriedAgainAtATime(t *testing.T) {
	f := &Facts{Holds: []status.Hold{{Site: "a.test", Why: "it answers 403 to all requests", Until: noon.Add(40 * time.Second)}}}
	f.Waiting = status.SumWaits(f.Holds)
	f.Breakers = []status.Breaker{{Site: "a.test", State: status.Failing, Why: "it answers 403 to all requests", Since: noon.Add(-time.Hour)}}
	inOrder(t, rendered(t, f), "failing: it answers 403 to all requests, so it may block this crawler", "tried again in 40 s")
}

// TestWhatIsGivenUpIsToldApart: beside what flows, as what abide refuses itself.
func TestWhatIsGivenUpIsToldApart(t *testing.T) {
	f := crowd(1, 0)
	f.Samples.Total.Now = status.Rate{Requests: 0, Own: 3, Left: 4.4}
	inOrder(t, rendered(t, f), "Flowing</h2>", "<b>0</b> requests/s", "3.0/s refused by abide itself", "4.4/s given up by clients")
}

// TestWhatIsWrongIsOneRow: what clients lose by a pause or a used up quota is in the row of that, and sites have the order
// of the rows.
func TestWhatIsWrongIsOneRow(t *testing.T) {
	f := &Facts{}
	f.Paused = []status.SitePause{{Site: "paused.test", Pause: &status.Pause{Reason: "move", Since: noon.Add(-time.Minute)}}, {Site: "idle.test", Pause: &status.Pause{Since: noon}}}
	f.Breakers = []status.Breaker{{Site: "trial.test", State: "half-open", Why: "refused"}, {Site: "zoo.test", State: "open", Why: "refused"}}
	f.Forecasts = []status.Forecast{{Site: "quota.test", Limit: "10 per day", Opens: noon, Ends: noon.Add(20 * time.Hour)}}
	loss := func(site, why, because string) status.Advice {
		return status.Advice{Rule: status.OwnAnswers, Site: site, Weight: 1, Lately: true, Text: site + ": abide itself answered 9 of 9 requests with the wait" + why, Change: "Wait.", Because: because}
	}
	f.Advice = []status.Advice{
		loss("paused.test", ", because it is "+status.ByPause+".", status.ByPause), loss("quota.test", "; most waited for 10 per day.", "10 per day"),
		loss("other.test", "; most waited for 110 per day.", "110 per day"),
	}
	f.Forecasts = append(f.Forecasts, status.Forecast{Site: "other.test", Limit: "10 per day", Opens: noon, Ends: noon.Add(20 * time.Hour)})
	for _, name := range []string{"busy.test", "idle.test", "paused.test", "quota.test", "trial.test", "zoo.test"} {
		f.Known = append(f.Known, status.Site{Counts: status.Counts{Name: name, Requests: 9}})
	}
	f.Known[0].Held = 3
	list := f.wrong(noon)
	if len(list) != 6 || !strings.Contains(list[3].Reason, "110 per day") || list[4].Reason != "10 per day is used up" { // another limit
		t.Fatalf("%v", list)
	}
	inOrder(t, rendered(t, f), `2 sites</th><td class="text">left alone: refused: <a href="/?site=trial.test">trial.test</a>, <a href="/?site=zoo.test">zoo.test</a>`,
		`10 per day is used up; abide itself answered 9 of 9 requests with the wait; most waited for 10 per day.`,
		`: move; abide itself answered 9 of 9 requests with the wait, because it is paused by the operator for longer`, `aria-label="Resume paused.test"`, `no reason was given</td>`,
		"ordered by", `>trial.test</a>`, `>zoo.test</a>`, `>quota.test</a>`, `>paused.test</a>`, `>idle.test</a>`, `>busy.test</a>`)
}

// TestNumbersDoNotRunIntoEachOther: how many wait and for how long, and the name of a site and how many more.
func TestNumbersDoNotRunIntoEachOther(t *testing.T) {
	f := &Facts{Known: []status.Site{{Counts: status.Counts{Name: "a.test"}, Held: 2, LongestWait: 49}}}
	f.Waiting = &status.Waits{N: 3, List: []status.Wait{{Site: "a.test", Sites: 3, Limit: "2 in flight", N: 3}}}
	f.Holds = []status.Hold{{Site: "a.test"}}
	inOrder(t, rendered(t, f), `>a.test</a> <a href="#h-sites"> and 2 more</a>`, `<b>2</b> <span class="faint small">for up to 49 s</span>`)
}

// TestAReportIsTables: with a heading each, in which each value has its name, and is written as elsewhere on the page.
func TestAReportIsTables(t *testing.T) {
	long := strings.Repeat("sub.", 30) + "test"
	r := status.Report{By: "site", Since: noon, Until: noon.Add(24 * time.Hour), Rows: []status.ReportRow{{Name: long, Requests: 5001, Waited: 16083}, {Name: "<b>", Requests: 2, Waited: 4.608}, {Name: "5m", Requests: 1, Waited: 270000}}}
	r.Limits = []status.ReportBlocked{{Site: "a.test", Limit: "5001 per 1m", Held: 145, Busy: 9}}
	r.Add("a.test", "499: 5s", 7)
	inOrder(t, string(Report("", "/", r)), "<p>2026-03-01 12:00 to 2026-03-02 12:00 UTC</p>", "<h3>Requests by site</h3>", `<th scope="col" class="text">SITE</th><th scope="col">REQUESTS</th>`,
		`<td data-name="SITE" class="text">`+long+`</td><td data-name="REQUESTS">5 001</td><td data-name="REFUSED">0</td><td data-name="WAITED">4 h 28 min</td><td data-name="PER REQUEST">3.216 s</td>`,
		"&lt;b&gt;</td>", ">2.304 s</td>", ">5m</td>", ">3 d 3 h</td>", "</table>", "<h3>What held requests</h3>", ">5001 per 1m</td>", ">2 min 25 s</td>", "<h3>Failed</h3>", "<p>7 requests given up by clients", "docs time-outs</a>")
	if text := string(Report("", "/", status.Report{By: "site"})); !strings.Contains(text, "no request was recorded in this time</p>") {
		t.Error(text)
	}
}

// TestWhatStandsStillForLongIsSaid: in the headline, whatever the rows are, and as wrong, also on the page of the site.
func TestWhatStandsStillForLongIsSaid(t *testing.T) {
	f := &Facts{Known: []status.Site{{Counts: status.Counts{Name: "long.test"}}, {Counts: status.Counts{Name: "brief.test"}}}}
	for i := range 90 {
		f.Holds = append(f.Holds, status.Hold{Site: fmt.Sprint("s", i%9, ".test"), Limit: fmt.Sprint(i%9, " per 1s"), Expected: noon.Add(3 * time.Second)})
	}
	f.Holds = append(f.Holds, status.Hold{Site: "brief.test", Why: "Retry-After", Until: noon.Add(time.Minute)}, status.Hold{Site: "long.test", Why: "Retry-After", Until: noon.Add(19*time.Minute + 4*time.Second)})
	f.Cooldowns = []status.Cooldown{{Site: "long.test", Why: "Retry-After", Until: noon.Add(19*time.Minute + 4*time.Second)}}
	f.Waiting = status.SumWaits(f.Holds)
	inOrder(t, rendered(t, f), "abide: 1 thing is wrong", `<a href="/?site=long.test">long.test</a></th><td class="text">no request goes, because of a pause: Retry-After</td><td><span class="whole">requests go again in 19 min 04 s</span>`,
		`some go only in 19 min 04 s, to <a href="/?site=long.test">long.test</a></p>`)
	f.Filter = "long.test"
	inOrder(t, rendered(t, f), "What is wrong with long.test</h2>", "no request goes, because of")
	f.Filter = "s1.test"
	inOrder(t, rendered(t, f), `10</b> requests wait, the longest for 1 s; the last goes in 3 s, to`)
}

// TestPausesThatEndApartAreNotSaidToEndTogether: many sites in one row.
func TestPausesThatEndApartAreNotSaidToEndTogether(t *testing.T) {
	f := &Facts{}
	for i := range 6 {
		f.Holds = append(f.Holds, status.Hold{Site: fmt.Sprint("s", i, ".test"), Why: "Retry-After", Until: noon.Add(time.Duration(3+i*i*20) * time.Second)})
	}
	f.Waiting = status.SumWaits(f.Holds)
	for _, one := range f.Holds {
		f.Cooldowns = append(f.Cooldowns, status.Cooldown{Site: one.Site, Why: one.Why, Until: one.Until})
	}
	inOrder(t, rendered(t, f), "6 sites</th>", "no request goes", "the first requests go again", "and 5 more</a></td><td>in 3 s to 8 min 23 s</td>")
}

// TestEquallyWrongSitesKeepTheirPlaces: whatever is counted of them.
func TestEquallyWrongSitesKeepTheirPlaces(t *testing.T) {
	f := &Facts{}
	for i, name := range []string{"c.test", "b.test", "a.test"} {
		f.Breakers = append(f.Breakers, status.Breaker{Site: name, State: "open", Why: "refused"})
		f.Known = append(f.Known, status.Site{Counts: status.Counts{Name: name, Requests: uint64(9 - i), In: uint64(9 - i)}, Held: 1 - i%2})
	}
	inOrder(t, rendered(t, f), "ordered by", `"/?site=a.test"`, `"/?site=b.test"`, `"/?site=c.test"`)
}

// TestASiteThatIsDownSaysWhatClientsLose: the row stays the same one while the number grows.
func TestASiteThatIsDownSaysWhatClientsLose(t *testing.T) {
	f := &Facts{}
	key := ""
	for range 2 {
		f.Breakers = []status.Breaker{{Site: "a.test", State: "open", Why: "refused"}, {Site: "b.test", State: "open", Why: "refused"}}
		f.Failures.Add("a.test", "503: by abide: breaker", 102)
		f.Failures.Add("a.test", "502", 7)
		f.Failures.Add("b.test", "503: by abide: breaker", 1)
		key += f.wrong(noon)[0].Key()
	}
	inOrder(t, rendered(t, f), `2 sites</th><td class="text">left alone: refused; abide itself answered 206 requests since the start: <a href="/?site=a.test">`)
	if n := len(key) / 2; key[:n] != key[n:] {
		t.Error("it is another row", key)
	}
}

// TestAdviceSaysSinceWhenItCounts: after a reload it begins anew.
func TestAdviceSaysSinceWhenItCounts(t *testing.T) {
	f := &Facts{Counted: noon.Add(-90 * time.Second), Advice: []status.Advice{{Rule: status.GivenUp, Site: "a.test", Weight: 1, Lately: true, Text: "a.test: clients gave up 6 of 9 requests."}, {Rule: "limit", Text: "raise it"}}}
	inOrder(t, rendered(t, f), "clients gave up 6 of 9 requests.", `<span class="whole">since 11:58:30 UTC</span>`, "Advice <small>from what was counted since 11:58:30 UTC</small>")
}
