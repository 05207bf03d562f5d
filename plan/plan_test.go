package plan

import (
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
