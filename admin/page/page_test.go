package page

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/admin/samples"
	"github.com/abide-proxy/abide/status"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// crowd has so many sites and tokens, and as many requests that wait as are counted.
func crowd(sites, tokens int) *Facts {
	f := &Facts{Samples: samples.Snapshot{End: noon.Add(samples.Step), Sites: map[string]samples.Course{}, Tokens: map[samples.TokenKey]samples.Timeline{}}}
	points := make([]float32, samples.Points)
	for i := range points {
		points[i] = float32(i * 7 % 13)
	}
	f.Samples.Total, f.Samples.Waiting = samples.Course{Now: samples.Rate{Requests: 42}, Requests: points, Bytes: points}, points
	for i := range sites {
		site := status.Site{Counts: status.Counts{Name: fmt.Sprintf("site-%04d.test", i), Requests: uint64(i)}}
		for n := range 4 {
			site.Limits = append(site.Limits, status.Limit{Limit: fmt.Sprint(n, " requests per 1m"), Amount: 60, Left: int64(15 * n), Unit: "requests"})
		}
		f.Known = append(f.Known, site)
		f.Samples.Sites[site.Name] = samples.Course{Now: samples.Rate{Requests: 1}, Requests: points, Bytes: points}
	}
	pool := status.Pool{Name: "api", Count: tokens}
	for i := range tokens {
		t := status.Token{Label: fmt.Sprintf("token-%03d", i), State: "ready", Limits: []status.Announced{{Site: "a.test", Limit: 75, Remaining: int64(i % 75), Reset: noon.Add(time.Duration(i%14) * time.Minute)}}}
		if i%3 == 0 {
			t.State, t.Until = "cooling", noon.Add(time.Duration(i%20)*time.Minute)
		}
		pool.Tokens = append(pool.Tokens, t)
		var past samples.Timeline
		for n := range past {
			past[n] = samples.State((n/3 + i) % 8)
		}
		f.Samples.Tokens[samples.TokenKey{Pool: "api", Label: t.Label}] = past
	}
	f.Tokens = status.Tokens{Pools: []status.Pool{pool}}
	for i := range status.MaxHolds {
		f.Holds = append(f.Holds, status.Hold{Site: fmt.Sprintf("site-%04d.test", i%max(sites, 1)), Client: fmt.Sprint(i % 5), Priority: i % 8, Waited: float64(i), Expected: noon.Add(time.Minute)})
	}
	f.Waiting = status.SumWaits(f.Holds, noon)
	return f
}

func BenchmarkAPageOfAThousandSitesAndTwoHundredTokens(b *testing.B) {
	f := crowd(1000, 200)
	for b.Loop() {
		if _, err := Parts(f, noon); err != nil {
			b.Fatal(err)
		}
	}
}

// rendered is the whole page.
func rendered(t *testing.T, f *Facts) string {
	t.Helper()
	var b strings.Builder
	if err := Render(&b, f, noon); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageListsTheBusiestSitesUpToABound(t *testing.T) {
	f := crowd(1000, 200)
	text := rendered(t, f)
	if n := strings.Count(text, `name="do" value="pause"`); n != status.MaxListed || !strings.Contains(text, "The 100 busiest of 1\u202f000 are listed.") {
		t.Errorf("%d sites", n)
	}
	if n := strings.Count(text, `<g transform="translate(0 `); n != 200 {
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

func TestEveryPartIsInThePageAsItIsSent(t *testing.T) {
	f := crowd(3, 3)
	text := rendered(t, f)
	parts, err := Parts(f, noon)
	if err != nil || len(parts) != len(partNames) {
		t.Fatal(err)
	}
	for _, one := range parts {
		if !strings.Contains(text, fmt.Sprintf("id=%q", one.Name)) || !strings.Contains(text, one.HTML) {
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
	for _, never := range []string{"h-tokens", "h-advice", "h-jobs", "h-bandwidth", "h-pauses", "h-broken", "h-unread", "NaN", "%!"} {
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
		{[]float32{0, 0, 0}, 1, "M0 20h2", 0},
		{[]float32{0, 4, 4, 2}, 1, "M0 20l1 -20h1l1 10", 4},
		{[]float32{0, 0, 4, 8}, 2, "M0 20l1 -20", 6},
		{[]float32{0, 0.0001, 1000}, 1, "M0 20l1 -1l1 -19", 1000}, // a little is more than nothing
	} {
		if got := sparkOf(one.points, one.every); got.Line != one.line || got.Most != one.most {
			t.Errorf("%v: %q, at most %v", one.points, got.Line, got.Most)
		}
	}
}

// pathOf is the path of a state of a timeline.
func pathOf(l timeline, state string) string {
	for _, one := range l.Stretches {
		if one.State == state {
			return one.Path
		}
	}
	return ""
}

func TestATimelineShowsThePastAndWhatIsToCome(t *testing.T) {
	end := noon.Add(samples.Step)
	var past samples.Timeline
	for i := range past {
		past[i] = samples.Ready
		if i >= 80 && i < 85 {
			past[i] = samples.Used
		}
	}
	cooling := status.Token{Label: "a", State: "cooling", Until: end.Add(5 * time.Minute)}
	spent := status.Token{Label: "b", State: "ready", Limits: []status.Announced{{Limit: 75, Remaining: 0, Reset: end.Add(10 * time.Minute)}, {Limit: 75, Remaining: 70, Reset: end.Add(time.Minute)}}}
	for _, one := range []struct {
		token *status.Token
		spent time.Time
		state string
		path  string
	}{
		{&cooling, time.Time{}, "used", "M80 0h5v10h-5z"},
		{&cooling, time.Time{}, "cooling", "M90 0h30v10h-30z"},
		{&cooling, time.Time{}, "ready", "M0 0h80v10h-80zM85 0h5v10h-5zM120 0h60v10h-60z"},
		{&status.Token{State: "cooling", Until: noon.Add(-time.Hour)}, time.Time{}, "cooling", ""},
		{&status.Token{State: "quarantined", Until: noon.Add(time.Hour)}, time.Time{}, "quarantined", "M90 0h90v10h-90z"},
		{&status.Token{State: "disabled"}, time.Time{}, "disabled", "M90 0h90v10h-90z"},
		{&status.Token{State: "ready", Routes: []status.Paused{{Until: end.Add(time.Minute)}}}, time.Time{}, "partly", "M90 0h6v10h-6z"},
		{&spent, end.Add(2 * time.Minute), "spent", "M90 0h12v10h-12z"},
	} {
		if got := pathOf(timelineOf(one.token, past, one.spent, end), one.state); got != one.path {
			t.Errorf("%s of %+v: %q, want %q", one.state, one.token, got, one.path)
		}
	}
	if got := timelineOf(&spent, past, time.Time{}, end).Resets; got != "M150 0v10" {
		t.Errorf("the resets are %q", got)
	}
	if got := timelineOf(&cooling, past, time.Time{}, end).Title; got != "a: cooling now; of the last 15 min in use for 0.833 min, put away for 0 min" {
		t.Error(got)
	}
}

func TestAChartHasTheSitesWithTheMostBytes(t *testing.T) {
	p := Period{Name: "hour", Since: noon, Step: time.Minute, Steps: 60}
	for i := range 9 {
		p.Traffic = append(p.Traffic, status.Traffic{Site: fmt.Sprint("s", i), Start: noon.Add(time.Duration(i) * time.Minute), In: int64(100 * (9 - i)), Out: -1})
	}
	p.Traffic = append(p.Traffic, status.Traffic{Site: "s0", Start: noon.Add(-time.Minute), In: 1 << 40}, status.Traffic{Site: "s0", Start: noon.Add(time.Hour), In: 1 << 40})
	c := chartOf(p)
	if len(c.Legend) != mostColours+1 || c.Legend[0].Name != "s0" || c.Legend[0].In != 900 || c.Legend[mostColours].Name != "4 other sites" || c.Legend[mostColours].In != 1000 {
		t.Errorf("%+v", c.Legend)
	}
	if len(c.Blocks) != 9 || c.Blocks[0] != (block{X: 0, Y: 0, Height: 100, Class: "c0", Title: "s0, from 12:00 UTC: 900 B"}) || c.Most != 900 {
		t.Errorf("%d blocks, %+v", len(c.Blocks), c.Blocks[0])
	}
}

func TestLimitsOfEachTokenAreOneBar(t *testing.T) {
	list := []status.Limit{{Limit: "40 per 1m by token", Of: "a", Amount: 40, Left: 10}, {Limit: "40 per 1m by token", Of: "b", Amount: 40, Left: 30}, {Limit: "2 in flight", Amount: 2, Left: 2}, {Limit: "none left", Amount: 5, Left: 0}}
	bars := scarcestBars(list)
	if len(bars) != 2 || bars[0].Name != "none left" || bars[0].Tone != "full" || bars[1].Name != "40 per 1m by token, 2 together" || bars[1].Left != "40 of 80" || bars[1].Used != 50 {
		t.Errorf("%+v", bars)
	}
}

func TestAProblemIsAPage(t *testing.T) {
	var b strings.Builder
	err := Problem(&b, status.Problem{Title: "Bad Request", Detail: "<b>", Faults: []status.Fault{{Line: 3, Key: "limits[0]", Text: "is <i>"}}})
	if err != nil || !strings.Contains(b.String(), `<p class="bad">&lt;b&gt;</p>`) || !strings.Contains(b.String(), "line 3: limits[0]: is &lt;i&gt;") {
		t.Error(err, b.String())
	}
}

func TestATemplateThatFailsWritesNothing(t *testing.T) {
	if err := execute(io.Discard, "missing", nil); err == nil {
		t.Error("no error")
	}
}
