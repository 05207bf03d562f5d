package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func withBreakers(list ...status.Breaker) func(*policy.Policy, *given) {
	return func(_ *policy.Policy, o *given) { o.Breakers = func() []status.Breaker { return list } }
}

func TestBreakersThatAreNotClosedAreShown(t *testing.T) {
	soon := time.Now().Add(10 * time.Minute)
	list := []status.Breaker{
		{Site: "well.test", State: "closed"},
		{Site: "nitter.pool", Backend: "nitter-a.example", State: "half-open", Until: soon},
		{Site: "api.test", State: "open", Why: "it answered 502", Until: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.FixedZone("", 3600))},
	}
	b := newBed(t, withBreakers(list...))
	r := b.get("/")
	open := strings.Index(r.body, `class="bad"><a href="/?site=api.test">api.test</a></th><td class="text">left alone: it answered 502</td>`)
	half := strings.Index(r.body, `class="bad"><a href="/?site=nitter.pool">nitter.pool / nitter-a.example</a></th><td class="text">left alone: it failed</td><td><span class="whole">tried again in 9 min `)
	if open < 0 || half < open || strings.Contains(r.body, "well.test") {
		t.Errorf("the page:\n%s", r.body)
	}
	want := `"breakers":[{"site":"api.test","state":"open","until":"2026-03-01T11:00:00Z","why":"it answered 502"},{"site":"nitter.pool","backend":"nitter-a.example","state":"half-open","until":`
	if r := b.get("/api/v1/status"); !strings.Contains(r.body, want) {
		t.Error(r.body)
	}
	if list[0].State != "closed" || list[2].Site != "api.test" {
		t.Errorf("the list of others was changed: %v", list)
	}
	for _, one := range []func(*policy.Policy, *given){nil, withBreakers(), withBreakers(list[0])} {
		if r := newBed(t, one).get("/"); !strings.Contains(r.body, "Nothing is wrong") {
			t.Errorf("nothing is broken:\n%s", r.body)
		}
	}
}

func TestManySitesThatFailAlikeAreOneLine(t *testing.T) {
	var list []status.Breaker
	for i := range 300 {
		list = append(list, status.Breaker{Site: fmt.Sprintf("%d.test", i), State: "open"})
	}
	const want = `class="bad">100 sites</th><td class="text">left alone: it failed: <a href="/?site=0.test">0.test</a>, <a href="/?site=1.test">1.test</a>, <a href="/?site=10.test">10.test</a> <details class="names" data-key="names"><summary>and 97 more</summary> <a href="/?site=100.test">`
	if page := newBed(t, withBreakers(list...)).get("/").body; !strings.Contains(page, want) {
		t.Errorf("the page:\n%s", page)
	}
}

func TestThePageSaysWhatLimitsASite(t *testing.T) {
	holds := append(many(2, "api.test", "2 in flight", time.Time{}), many(5, "api.test", "900 requests per 15m", time.Time{})...)
	holds = append(holds, status.Hold{Site: "turn.test"})
	b := newBed(t, withHolds(holds...))
	for _, site := range []string{"api.test", "free.test", "turn.test"} {
		b.metrics.Site(site).Request("GET", 200, 1)
	}
	r := b.get("/")
	for site, want := range map[string]string{
		"api.test": "<b>900 requests per 15m</b>", "free.test": "", "turn.test": "<b>its turn</b>",
	} {
		_, row, _ := strings.Cut(r.body, `id="sites"`)
		_, row, _ = strings.Cut(row, `<a href="/?site=`+site+`">`)
		if row, _, _ = strings.Cut(row, "</tr>"); !strings.Contains(row, `<td class="text limits">`+want+`</td>`) {
			t.Errorf("the page lacks %s:\n%s", want, r.body)
		}
	}
	paused := status.Hold{Site: "api.test", Limit: "api.test", Why: "it failed too often"}
	token := status.Hold{Site: "api.test", Limit: "token alice", Why: "Retry-After"}
	b = newBed(t, withHolds(paused, paused, token))
	b.metrics.Site("api.test").Request("GET", 200, 1)
	for _, want := range []string{`<td class="text limits"><b>a pause: it failed too often</b></td>`, `<th scope="row">a pause of the limit token alice: Retry-After</th>`} {
		if r := b.get("/"); !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, r.body)
		}
	}
	b = newBed(t, nil)
	b.metrics.Site("api.test").Request("GET", 200, 1)
	if r := b.get("/"); !strings.Contains(r.body, `<td class="text limits"></td>`) {
		t.Errorf("without a queue:\n%s", r.body)
	}
}

func TestBrokenNamesAreShownAndNeverRun(t *testing.T) {
	var list []status.Breaker
	for _, one := range hostile {
		list = append(list, status.Breaker{Site: one, Backend: one, State: one})
	}
	found := tags(t, newBed(t, withBreakers(list...)).get("/").body)
	nothingRuns(t, found)
	if found["tr"] != 3+2*len(hostile) { // with the table of sites
		t.Errorf("the table has %d rows", found["tr"])
	}
}

func TestTheStateSaysWhoGoesFirst(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, o *given) {
		p.Access.Clients = []policy.Client{{Name: "news", Weight: 3}, {Name: "batch", Weight: 1}}
		o.Holds = func(string, int) []status.Hold { return []status.Hold{{Site: "api.test", Client: "news"}} }
	})
	if r := b.get("/api/v1/status"); !strings.Contains(r.body, `"turns":"news (weight 3)"`) {
		t.Error(r.body)
	}
}
