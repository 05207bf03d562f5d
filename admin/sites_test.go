package admin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestSitesHaveWhatIsKnownOfThem(t *testing.T) {
	o := &overriding{}
	until := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	b := newBed(t, func(p *policy.Policy, to *given) {
		holds := many(3, "api.test", "2 in flight", time.Time{})
		holds[1].Waited, holds[2].Waited = 7.5, 2
		withHolds(holds...)(p, to)
		withBreakers(
			status.Breaker{Site: "api.test", State: "half-open", Until: until}, status.Breaker{Site: "pool", Backend: "a.test", State: "open"},
			status.Breaker{Site: "well.test", State: "closed"},
		)(p, to)
		o.into(p, to)
		o.all["set.test:8443"] = nil
		to.Limits = func() []status.Limit {
			return []status.Limit{
				{Site: "api.test", Limit: "7 per 1m", Of: "b", Amount: 7, Left: 2, Unit: "requests", Per: "1m", Kept: true},
				{Site: "api.test", Limit: "7 per 1m", Of: "a", Amount: 7, Left: -5, Unit: "requests", Per: "1m", Shared: true},
			}
		}
	})
	b.metrics.Site("api.test").Read(1000)
	b.metrics.Site("api.test").Request("GET", 200, 1)
	for _, scope := range []string{"site", "route", "another"} {
		b.metrics.Site("api.test").RefusedBy(scope)
	}
	b.metrics.Site("quiet/test").Wrote(1)
	r := b.get("/api/v1/sites")
	want := `{"sites":[{"site":"api.test","requests":1,"bytes_received":1000,"bytes_sent":0,"requests_last_minute":1,"refusals":3,"limits":[` +
		`{"limit":"7 per 1m","of":"a","amount":7,"left":-1,"unit":"requests","per":"1m","shared":true,"kept":false},` +
		`{"limit":"7 per 1m","of":"b","amount":7,"left":2,"unit":"requests","per":"1m","shared":false,"kept":true}],"limit_count":2,` +
		`"limits_set":false,"held":3,"longest_wait_seconds":7.5,"limited_by":"2 in flight","breaker":"half-open","breakers":[{"site":"api.test","state":"half-open","until":"2026-03-01T11:00:00Z"}]},` +
		`{"site":"quiet/test","requests":0,"bytes_received":0,"bytes_sent":1,"requests_last_minute":0,"refusals":0,"limits":[],"limit_count":0,"limits_set":false,"held":0,"longest_wait_seconds":0,"breaker":"closed"},` +
		`{"site":"Two of them","requests":0,"bytes_received":0,"bytes_sent":0,"requests_last_minute":0,"refusals":0,"limits":[{"limit":"7 requests per 1m","amount":7,"left":7,"unit":"requests","per":"1m","shared":false,"kept":true}],"limit_count":1,"limits_set":false,"held":0,"longest_wait_seconds":0,"breaker":"closed"},` +
		`{"site":"pool","requests":0,"bytes_received":0,"bytes_sent":0,"requests_last_minute":0,"refusals":0,"limits":[],"limit_count":0,"limits_set":false,"held":0,"longest_wait_seconds":0,"breaker":"closed","breakers":[{"site":"pool","backend":"a.test","state":"open"}]},` +
		`{"site":"set.test:8443","requests":0,"bytes_received":0,"bytes_sent":0,"requests_last_minute":0,"refusals":0,"limits":[],"limit_count":0,"limits_set":true,"held":0,"longest_wait_seconds":0,"breaker":"closed"}],"count":5,"more":false}` + "\n"
	body := regexp.MustCompile(`"rate":{[^}]*},`).ReplaceAllString(r.body, "") // whether the second of the request is over is left to chance
	if r.StatusCode != 200 || body != want {
		t.Errorf("%d %s\nwant %s", r.StatusCode, body, want)
	}
	for path, want := range map[string]string{
		"api.test": `"held":3`, "set.test:8443": `"limits_set":true`, "quiet%2Ftest": `"site":"quiet/test"`, "pool": `"backend":"a.test"`,
	} {
		if r := b.get("/api/v1/sites/" + path); r.StatusCode != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	for _, path := range []string{"nowhere.test", "well.test", "%0A", "a%2Fb", "..%2f..", "..%2f../limits", "a%2f..%2fb/limits"} {
		if r := b.get("/api/v1/sites/" + path); r.StatusCode != 404 || !json.Valid([]byte(r.body)) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
}

func TestSitesAreListedUpToABound(t *testing.T) {
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Limits = func() []status.Limit {
			var list []status.Limit
			for i := range mostSites + 1 {
				list = append(list, status.Limit{Site: fmt.Sprint(i), Limit: "x"}, status.Limit{Site: "many", Limit: "x", Of: fmt.Sprint(i)})
			}
			return list
		}
	})
	for query, want := range map[string]int{"": usualSites, "?limit=3": 3, "?limit=10000": mostSites} {
		var got status.SiteList
		if err := json.Unmarshal([]byte(b.get("/api/v1/sites"+query).body), &got); err != nil || len(got.Sites) != want || !got.More || got.Count != mostSites+2 {
			t.Errorf("%s: %d of %d, %v", query, len(got.Sites), got.Count, err)
		}
	}
	var site status.Site
	if err := json.Unmarshal([]byte(b.get("/api/v1/sites/many").body), &site); err != nil || len(site.Limits) != status.MaxLimits || site.LimitCount != mostSites+1 {
		t.Errorf("%d limits of %d, %v", len(site.Limits), site.LimitCount, err)
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?limit=10001", "?limit=1&limit=2", "?recorded=no", "?recorded=", "?most=1", "?%zz"} {
		if r := b.get("/api/v1/sites" + query); r.StatusCode != 400 || !json.Valid([]byte(r.body)) {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.body)
		}
	}
}
