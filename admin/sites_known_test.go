package admin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestSitesThatNobodyHasAskedSinceTheStartAreKnown(t *testing.T) {
	configured, err := policy.Load(policy.Source{Path: "abide.yaml", Data: []byte(`data: /var/lib/abide
sites:
  - {host: [api.test, "*.wild.test"], limits: [{requests: 7, per: 1m}, {concurrency: 2}, {as: adaptive, min: 1/s, max: 2/s}]}
  - host: my.pool
    backends: [{url: https://a.test, name: one, limits: [{requests: 9, per: 1s, as: bucket, burst: 3}]}, https://b.test]
    limits: [{bytes: 1MB, per: 1m}]
`)})
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	b := newBed(t, func(p *policy.Policy, o *given) {
		configured.Listen, configured.Admin = p.Listen, p.Admin
		*p = *configured
		o.Learned = func() []string { return []string{"learned.test"} }
		o.Bandwidth = func(_ context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error) {
			reads++
			if step != 0 || until.Sub(since) != recordedFor {
				t.Errorf("%v to %v by %v", since, until, step)
			}
			if all := (status.Traffic{Site: "old.wild.test", In: 10, Out: 2, Requests: 1}); site == "" || site == all.Site {
				return []status.Traffic{all}, nil
			}
			return nil, nil
		}
	})
	for path, want := range map[string]string{
		"api.test": `{"site":"api.test","requests":0,"bytes_received":0,"bytes_sent":0,"requests_last_minute":0,"refusals":0,"limits":[` +
			`{"limit":"7 requests per 1m","amount":7,"left":7,"unit":"requests","per":"1m","shared":false,"kept":true},` +
			`{"limit":"2 in flight","amount":2,"left":2,"unit":"concurrency","shared":false,"kept":false},` +
			`{"limit":"adaptive between 1/s and 2/s","amount":0,"left":-1,"unit":"requests","shared":false,"kept":false}],"limit_count":3,`,
		"my.pool": `"limits":[{"limit":"9 requests per 1s (bucket)","of":"one","amount":9,"left":3,"unit":"requests","per":"1s","shared":false,"kept":true},` +
			`{"limit":"1MB per 1m","of":"b.test","amount":1000000,"left":1000000,"unit":"bytes","per":"1m","shared":false,"kept":true}]`,
		"old.wild.test": `"last_30_days":{"requests":1,"bytes_received":10,"bytes_sent":2}`,
		"learned.test":  `"limits":[{"limit":"32 in flight"`,
	} {
		if r := b.get("/api/v1/sites/" + path); r.StatusCode != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	for _, path := range []string{"other.wild.test", "nowhere.test"} {
		if r := b.get("/api/v1/sites/" + path); r.StatusCode != 404 {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	for query, want := range map[string]int{"": 4, "?recorded=true": 4, "?recorded=false": 3} {
		reads = 0
		var list status.SiteList
		if err := json.Unmarshal([]byte(b.get("/api/v1/sites"+query).body), &list); err != nil || list.Count != want || reads != want-3 {
			t.Errorf("%s: %+v, %v, and the state file was read %d times", query, list, err, reads)
		}
	}
}
