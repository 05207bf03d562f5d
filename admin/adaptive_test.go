package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestTheRateOfAnAdaptiveLimitIsShownEverywhere(t *testing.T) {
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Limits = func() []status.Limit {
			return []status.Limit{
				{Site: "a.test", Limit: "adaptive between 1/s and 9/s", Left: 1 << 50, Rate: 3.4166, Unit: "requests"},
				{Site: "a.test", Limit: "60 requests per 1m (bucket)", Amount: 60, Most: 4, Left: 4, Unit: "requests"},
				{Site: "a.test", Limit: "9 requests per 1m", Amount: 9, Most: 9, Left: 4, Unit: "requests"},
			}
		}
	})
	var process status.Process
	if r := b.get("/api/v1/status"); json.Unmarshal([]byte(r.body), &process) != nil || len(process.Adaptive) != 1 {
		t.Fatalf("the status: %s", r.body)
	}
	var text strings.Builder
	process.DescribeAdaptive(&text)
	if want := "\nadaptive limits\n\nSITE    LIMIT                            NOW\na.test  adaptive between 1/s and 9/s  3.42/s\n"; text.String() != want {
		t.Errorf("for people: %q", text.String())
	}
	if r := b.get("/api/v1/sites/a.test"); !strings.Contains(r.body, `"rate":3.4166,"unit"`) || strings.Count(r.body, `"most":`) != 1 {
		t.Errorf("the site: %s", r.body)
	}
	if r := b.get("/"); !strings.Contains(r.body, "3.42/s now</td>") || !strings.Contains(r.body, " 4 of 4 left</td>") || !strings.Contains(r.body, " 4 of 9 left</td>") {
		t.Errorf("the page: %s", r.body)
	}
	text.Reset()
	status.Explanation{Limits: []status.ExplainedLimit{{Limit: "adaptive between 1/s and 9/s", Rate: 0.5, Left: 1 << 50}}}.Describe(&text, time.Now())
	if !strings.Contains(text.String(), "left            adaptive between 1/s and 9/s: 30 a minute now\n") {
		t.Errorf("the explanation:\n%s", text.String())
	}
}
