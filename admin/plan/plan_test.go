package plan

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

const fourTokens = `
pools:
  x: {tokens: [{label: a, secret: aaaa}, {label: b, secret: bbbb}, {label: c, secret: cccc}, {label: d, secret: dddd}]}
sites:
  - {host: api.test, pool: x, limits: [{requests: 900, per: 15m, by: token}]}
`

// load is a policy of a test.
func load(t testing.TB, yaml string) *policy.Policy {
	t.Helper()
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\n" + yaml), Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// crawlOf is a crawl of api.test.
func crawlOf(requests, clients int) Crawl {
	return Crawl{
		Target: policy.Target{Scheme: "https", Host: "api.test", Port: 443}, Path: "/", Method: "GET", Priority: -1,
		Requests: requests, Clients: clients, Latency: 300 * time.Millisecond, Bytes: 20_000,
	}
}

// scenario is a crawl that begins at noon, with four tokens in the pool x. siteLimit may be
// "".
func scenario(t testing.TB, c Crawl, siteLimit string) Scenario {
	t.Helper()
	s := Scenario{
		Start: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC), Crawl: c,
		Tokens: map[string][]policy.Token{"x": {{Label: "a"}, {Label: "b"}, {Label: "c"}, {Label: "d"}}},
	}
	if siteLimit != "" {
		var err error
		if s.SiteLimit, err = ParseSiteLimit(siteLimit); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run simulates a scenario.
func run(t testing.TB, yaml string, s Scenario) *Result {
	t.Helper()
	r, err := Run(t.Context(), load(t, yaml), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAPlanSaysWhenItEndsAndWhatLimits(t *testing.T) {
	r := run(t, fourTokens, scenario(t, crawlOf(20_000, 20), ""))
	// Four times 900 go at once, and again after each quarter of an hour.
	if r.Seconds < 75*60 || r.Seconds > 77*60 || !r.Finished || r.Answered != 20_000 || r.Refusals != (Refusals{}) {
		t.Errorf("%+v", r)
	}
	if top := r.LimitedBy[0]; top.Kind != ByLimit || top.Limit != "900 requests per 15m by token" || top.Share < .9 || top.Learned {
		t.Errorf("%+v", r.LimitedBy)
	}
	sum := 0.0
	for _, c := range r.LimitedBy {
		sum += c.Share
	}
	whole := 20 * r.Seconds // of all clients, some of which are done a little earlier
	if math.Abs(sum-1) > 1e-9 || math.Abs(r.LimitedBy[0].Seconds/r.LimitedBy[0].Share/whole-1) > .01 {
		t.Errorf("shares of %v: %+v", sum, r.LimitedBy)
	}
	if again := run(t, fourTokens, scenario(t, crawlOf(20_000, 20), "")); again.Seconds != r.Seconds {
		t.Errorf("the same plan ends after %v s and %v s", r.Seconds, again.Seconds)
	}
}

func TestWhatIfsAreTheSamePlanWithOneChange(t *testing.T) {
	s := scenario(t, crawlOf(20_000, 20), "")
	base := run(t, fourTokens, s)
	list, err := WhatIfs(t.Context(), load(t, fourTokens), s, base)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		change string
		least  float64 // seconds sooner
		most   float64
	}{
		{"one more token (5)", 14 * 60, 16 * 60},
		{`double "900 requests per 15m by token"`, 44 * 60, 46 * 60},
		{"twice the clients (40)", 0, 60},
	} {
		if got := list[i]; got.Change != want.change || got.Sooner < want.least || got.Sooner > want.most || !got.Finished {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	if len(list) != 3 || base.LimitedBy[0].Limit != "900 requests per 15m by token" || len(s.Tokens["x"]) != 4 {
		t.Errorf("%+v", list)
	}
	// Without a limit it is the answers that take the time.
	s = scenario(t, crawlOf(1000, 5), "")
	if list, err = WhatIfs(t.Context(), load(t, unlimited), s, run(t, unlimited, s)); err != nil || len(list) != 2 {
		t.Fatalf("%+v %v", list, err)
	}
	for _, one := range list {
		if math.Abs(one.Sooner-30) > 1 { // 1000 answers of 300 ms at 5 clients: a minute
			t.Errorf("%+v", one)
		}
	}
}

func TestALimitOfTheSiteAloneIsLearnedOrRefuses(t *testing.T) {
	yaml := "sites: [{host: api.test, limits: []}]\n"
	s := scenario(t, crawlOf(3000, 20), "100 per 1m")
	announced := run(t, yaml, s)
	s.Silent = true
	silent := run(t, yaml, s)
	// 30 windows, of which the last needs no end.
	if announced.Seconds < 29*60 || announced.Seconds > 32*60 || announced.Refusals.Site > 20 || !announced.LimitedBy[0].Learned {
		t.Errorf("announced: %+v", announced)
	}
	if silent.Seconds < 29*60 || silent.Refusals.Site < 10 || !silent.Finished {
		t.Errorf("silent: %+v", silent)
	}
	if list, err := WhatIfs(t.Context(), load(t, yaml), s, silent); err != nil || list[0].Change != `the site allows twice "100 per 1m"` || list[0].Sooner < 10*60 {
		t.Errorf("%+v %v", list, err)
	}
}

func TestRequestsThatCanNeverGoAreCounted(t *testing.T) {
	s := scenario(t, crawlOf(100, 3), "")
	s.Crawl.Target = policy.Target{Scheme: "http", Host: "api.test", Port: 80} // no token goes there
	r := run(t, fourTokens, s)
	if r.Finished || r.Answered != 0 || r.Refusals.Never != 100 || !strings.Contains(strings.Join(r.Notes, "\n"), "can never send: 100") {
		t.Errorf("%+v", r)
	}
}

func TestAPlanLooksTenYearsAhead(t *testing.T) {
	r := run(t, "queue: {wait: 1500h}\nsites: [{host: api.test, limits: [{requests: 1, per: month}]}]\n", scenario(t, crawlOf(150, 1), ""))
	if r.Finished || r.Answered < 119 || r.Answered > 121 || !strings.Contains(strings.Join(r.Notes, "\n"), "within ten years: ") {
		t.Errorf("%+v", r)
	}
}

func TestAPlanThatIsNotWantedAnyMoreEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, load(t, fourTokens), scenario(t, crawlOf(100_000, 20), "")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestNothingOfAPlannedPolicyReachesANetworkOrAFile(t *testing.T) {
	p := load(t, `
store: redis://store.test
egress: {proxy: "http://hop.test:3128"}
shard: {index: 1, of: 3}
pools:
  x: {file: /nowhere.csv, column: a, put: "query: key={token}", oauth2: {token_url: "https://login.test/token"}, limits: [{concurrency: 2, by: token}]}
  y: {env: NOT_SET}
sites: [{host: api.test, pool: x}]
`)
	ours := planned(p, map[string][]policy.Token{"x": {{Label: "a"}, {Label: "b", Account: "c"}}})
	if ours.Store.Hosts != nil || ours.Data != "" || ours.Egress.Proxy != nil || ours.Shard.Of != 0 {
		t.Errorf("%+v", ours)
	}
	for _, pool := range ours.Pools {
		if pool.File != "" || pool.Env != "" || pool.OAuth2.TokenURL != "" || len(pool.Tokens) == 0 {
			t.Errorf("%+v", pool)
		}
	}
	if len(ours.Pools[0].Tokens) != 2 || ours.Pools[0].Tokens[1].Account != "c" || len(ours.Pools[0].Limits) != 1 || p.Pools[0].File == "" {
		t.Errorf("%+v of %+v", ours.Pools[0], p.Pools[0])
	}
}
