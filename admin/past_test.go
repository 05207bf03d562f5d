package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// withEverything has limits, quotas, a fleet and a past.
func withEverything(p *policy.Policy, o *given) {
	now := time.Now()
	set := &overriding{}
	set.into(p, o)
	set.all["b.example.com:8443"] = limitsOf(`{"limits":[{"bytes":"1MB","per":"1m"}]}`)
	set.all["free.example.com"] = nil
	set.all["new.example.com"] = limitsOf(`{"limits":[{"requests":1,"per":"1s"}]}`)
	o.Limits = func() []status.Limit {
		return []status.Limit{
			{Site: "api.example.com", Limit: "10000 requests per month", Amount: 10_000, Left: 3800, Unit: "requests", Kept: true, Shared: true},
			{Site: "api.example.com", Limit: "75 requests per 15m by token", Of: "news-1", Amount: 75, Left: 0, Unit: "requests"},
			{Site: "b.example.com:8443", Limit: "1MB per 1m", Amount: 1_000_000, Left: 250_000, Unit: "bytes"},
			{Site: "slow.example.com", Limit: "adaptive between 1/s and 10/s", Left: -1, Unit: "requests"},
		}
	}
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	o.Forecast = func(string, int64) []status.Forecast {
		return []status.Forecast{
			{
				Site: "api.example.com", Limit: "10000 requests per month", Amount: 10_000, Used: 6200, Left: 3800, Unit: "requests",
				Opens: month, Ends: month.AddDate(0, 2, 0), Rate: 0.1, RunsOut: now.Add(10 * time.Minute),
			},
			{Site: "b.example.com:8443", Limit: "1MB per 1m", Amount: 1_000_000, Used: 750_000, Left: 250_000, Opens: now, Ends: now.Add(time.Minute)},
		}
	}
	o.Bandwidth = func(_ context.Context, _ string, since, _ time.Time, step time.Duration) ([]status.Traffic, error) {
		var list []status.Traffic
		for i := range 24 {
			list = append(list, status.Traffic{Site: "api.example.com", Start: since.Add(time.Duration(i) * step), In: int64(i*i) * 1e6, Out: 1000, Requests: 5})
		}
		return append(list, status.Traffic{Site: "b.example.com:8443", Start: since.Add(5 * step), In: 5e6}, status.Traffic{Site: hostile[1], Start: since, In: 1}), nil
	}
	o.Store = func(context.Context) status.Store {
		s := someFleet()
		for i := range s.Members {
			s.Members[i].Seen = now.Add(time.Hour - time.Duration(i)*150*time.Minute)
		}
		return s
	}
}

func TestThePageShowsLimitsQuotasTheFleetAndThePast(t *testing.T) {
	b := newBed(t, withEverything)
	r := b.get("/")
	for _, want := range []string{
		`<th scope="row">api.example.com <small>75 requests per 15m by token of news-1</small></th><td><svg class="bar"`, ` 0 of 75 left</td><td></td></tr>`,
		`<th scope="row">api.example.com <small>10 000 requests per month, shared</small></th>`, " 3\u202f800 of 10\u202f000 left</td><td>",
		`<th scope="row">b.example.com:8443 <small>1MB per 1m, set at run time</small></th>`, ` 250 kB of 1.0 MB left</td><td>resets <span>in `,
		`<th scope="row">free.example.com <small>set, and not asked for yet, set at run time</small></th>`,
		`<small>adaptive between 1/s and 10/s</small></th><td> not known</td>`,
		`<rect class="fill" x="-62" width="100" height="6"/></svg> `, " 3\u202f800 of 10\u202f000 left</td><td><span>at this rate until ",
		` UTC, api.example.com: `, `4.3 GB received, 24 kB sent`,
		`<span class="sentence">budgets are shared by 2 instances.</span>`, `host-b/17 <small>this one</small></th><td>now</td>`, `<td>1 h 30 min`,
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, r.body)
		}
	}
	found := tags(t, r.body)
	nothingRuns(t, found)
	plain := newBed(t, nil).get("/").body
	for _, never := range []string{`"h-forecast"`, `"h-fleet"`, `"h-bandwidth"`, `"h-limits"`} {
		if strings.Contains(plain, never) {
			t.Errorf("%s is on a page that has none:\n%s", never, plain)
		}
	}
}

func TestThePageIsThereWhenThePastCannotBeRead(t *testing.T) {
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Bandwidth = func(ctx context.Context, _ string, _, _ time.Time, _ time.Duration) ([]status.Traffic, error) {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > pagePatience {
				t.Error("the page waits for long")
			}
			return nil, errors.New("<b>disk")
		}
		o.Store = func(context.Context) status.Store { return status.Store{Kind: "shared", Since: time.Now(), Err: "<i>"} }
	})
	r := b.get("/")
	for _, want := range []string{`<p class="bad">What is recorded cannot be read: &lt;b&gt;disk</p>`, `<span class="sentence bad">budgets are shared by 1 instance, but the store does not answer since `} {
		if r.StatusCode != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%s is not on the page:\n%s", want, r.body)
		}
	}
}

func TestThePageListsAHundredLimits(t *testing.T) {
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Limits = func() []status.Limit {
			var list []status.Limit
			for i := range 300 {
				list = append(list, status.Limit{Site: fmt.Sprint(i, ".test"), Limit: "many", Amount: 300, Left: int64(i)})
			}
			return list
		}
	})
	r := b.get("/")
	if n := strings.Count(r.body, `<small>many</small></th>`); n != status.MaxListed || !strings.Contains(r.body, "200 more, of which more is left") {
		t.Errorf("%d lines:\n%s", n, r.body)
	}
}

func TestARealBrowserShowsQuotasAndTheFleet(t *testing.T) {
	b := newBed(t, withEverything)
	b.metrics.Site("api.example.com").Read(1000)
	page := chromium(t, "--dump-dom", "http://"+b.address+"/")
	for _, want := range []string{"3\u202f800 of 10\u202f000 left", "host-b/17", "set at run time", "4.3 GB received"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
