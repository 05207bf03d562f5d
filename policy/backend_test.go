package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestBackendsAreOriginsThatDiffer(t *testing.T) {
	p := load(t, `sites:
  - host: [my.pool, "*.pool"]
    backends: [https://A.Example., "http://a.example", "https://b.example:8443/", "HTTP://[2001:DB8::1]:80", "https://127.1:9443"]
  - {host: one.test, backends: https://c.example, balance: least-loaded, sticky: on}
  - {host: "a.test:8443", backends: [https://a.test]}
`)
	var got []string
	for _, one := range p.Sites[0].Backends {
		got = append(got, one.Origin())
	}
	if want := "https://a.example http://a.example https://b.example:8443 http://[2001:db8::1] https://127.0.0.1:9443"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	site := p.Sites[1]
	switch {
	case p.Sites[0].Backends[0].Target != Target{"https", "a.example", 443}, p.Sites[0].Balance != "adaptive", p.Sites[0].Sticky,
		site.Balance != "least-loaded", !site.Sticky, len(site.Backends) != 1, !site.needsRequests():
		t.Errorf("%+v", p.Sites)
	}
	if m := p.Match(Target{"https", "x.y.pool", 443}); m.Rule != &p.Sites[0] || m.Site != "x.y.pool" {
		t.Errorf("%+v", m)
	}
	const secret = "canary-4711"
	for text, want := range map[string]string{
		`""`:                                     "backends: is empty",
		"[]":                                     "backends: is empty",
		"b.test":                                 "is not an origin such as https://a.example",
		"//b.test":                               "is not an origin such as",
		"b.test:8080":                            "is not an origin such as",
		"https:b.test":                           "is not an origin such as",
		"https://":                               "is empty",
		"ftp://b.test":                           `scheme "ftp" is neither http nor https`,
		"https://b.test/x":                       "it has more than a scheme, a host",
		"https://b.test//":                       "it has more than a scheme, a host",
		"\"https://b.test?x=" + secret + "\"":    "it has more than a scheme, a host",
		"\"https://b.test?\"":                    "it has more than a scheme, a host",
		"\"https://b.test/#" + secret + "\"":     "it has more than a scheme, a host",
		"\"https://b.test#\"":                    "it has more than a scheme, a host",
		"https://" + secret + "@b.test":          "it has more than a scheme, a host",
		"https://u:" + secret + "@b.test/x":      "it has more than a scheme, a host",
		"\"https://u:" + secret + "@b test\"":    "is not an origin such as",
		"https://b.test:0":                       "port that is not a number",
		"https://b.test:99999":                   "port that is not a number",
		"https://-.b..test":                      "empty label",
		"\"https://*.b.test\"":                   "no host name has",
		"[https://b.test, https://B.test.:443/]": "backends[1]: https://b.test is listed twice",
		"[[https://b.test]]":                     "takes a single value",
		"{a: https://b.test}":                    "a: is not a key",
		"[https://b.test, http://a.pool]":        "backends[1]: http://a.pool is one of the hosts of this rule (*.pool)",
		"https://MY.test.":                       "https://my.test is one of the hosts of this rule (my.test)",
		"https://my.test:8443":                   "https://my.test:8443 is one of the hosts of this rule (my.test)",
		"http://one.test:81":                     "is one of the hosts of this rule (one.test:81)",
		"\"http://127.0.0.1:3128\"":              "sites[0].backends[0]: is this proxy itself",
		"[http://b.test, \"http://127.1:9128\"]": "sites[0].backends[1]: is this proxy itself",
		"https://b.test, balance: adaptve":       `did you mean "adaptive"?`,
		"https://b.test, sticky: 1":              "is neither true nor false",
	} {
		// The hosts may stand behind the backends.
		for _, rule := range []string{"{backends: %s, host: [my.test, \"*.pool\", \"one.test:81\"]}", "{host: [my.test, \"*.pool\", \"one.test:81\"], backends: %s}"} {
			if faults := refuse(t, "sites: ["+fmt.Sprintf(rule, text)+"]", "abide.yaml:1: sites[0].", want); strings.Contains(faults.Error(), secret) {
				t.Errorf("a secret is told: %v", faults)
			}
		}
	}
	refuse(t, "sites: [{host: \"*\", backends: [https://b.test]}]", "is one of the hosts of this rule (*)")
	refuse(t, "sites: [{host: a.test, balance: adaptive, sticky: off}]", "sites[0].balance: is about backends", "sites[0].sticky: is about backends")
	faults := refuse(t, "sites:\n  - host: a.test\n    backends:\n      - https://b.test/x\n      - ftp://c.test\n      - https://d.test\n      - https://d.test:443\n      - https://a.test\n    sticky: maybe\n")
	if len(faults) != 5 {
		t.Errorf("%d faults of 5:\n%v", len(faults), faults)
	}
}

func TestManyHostsWithManyBackendsAreCheckedSoon(t *testing.T) {
	var hosts, backends []string
	for i := range 40_000 {
		hosts = append(hosts, fmt.Sprintf("h%d.test", i))
		backends = append(backends, fmt.Sprintf("https://b%d.test", i))
	}
	p := load(t, "sites: [{host: ["+strings.Join(hosts, ", ")+"], backends: ["+strings.Join(backends, ", ")+"]}]")
	var b strings.Builder
	p.Describe(&b)
	p.Explain(&b, Target{"https", "h7.test", 443}, "", false)
	if !strings.Contains(b.String(), "and 39992 more, adaptive") || !strings.Contains(b.String(), "or to one of 39992 more") || b.Len() > 10_000 {
		t.Errorf("%d bytes:\n%.3000s", b.Len(), b.String())
	}
}

func TestABackendMayHaveAWeightANameAndLimits(t *testing.T) {
	p := load(t, `sites:
  - host: my.pool
    backends:
      - {url: https://a.example, name: snscrape, weight: 2, limits: [{requests: 10/s}]}
      - https://b.example
      - {url: "https://c.example:8443", limits: []}
    limits: [{concurrency: 4}]
`)
	b := p.Sites[0].Backends
	switch {
	case len(b) != 3, b[0].Name != "snscrape", b[0].Weight != 2, !b[0].Own, len(b[0].Limits) != 1, b[0].Limits[0].Amount != 10,
		b[1].Name != "b.example", b[1].Weight != 1, b[1].Own, b[2].Name != "c.example:8443", !b[2].Own, len(b[2].Limits) != 0:
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		"[{name: a}]":                                                          "backends[0]: needs url",
		"[{url: https://b.test, weight: 0}]":                                   `backends[0].weight: "0" is less than 1`,
		"[{url: https://b.test, weight: 1001}]":                                "is more than 1000",
		"[{url: https://b.test, wieght: 2}]":                                   `did you mean "weight"?`,
		"[{url: https://b.test, name: a b}]":                                   "is not a name for a backend",
		"[{url: https://b.test, limits: {}}]":                                  "backends[0].limits: takes a list",
		"[{url: https://b.test/x}]":                                            "backends[0].url: is not an origin: it has more than a scheme, a host",
		"[{url: https://b.test, limits: [{requests: 1, per: 1m, by: token}]}]": "where there is no pool",
		"[{url: https://b.test, name: c.test}, https://c.test]":                `"c.test" is the name of a backend already`,
		"[{url: https://b.test}, https://b.test]":                              "is listed twice",
		"[{url: https://my.test}]":                                             "is one of the hosts of this rule",
	} {
		refuse(t, "sites: [{host: my.test, backends: "+text+"}]", want)
	}
}

func TestABackendThatHasAPoolForItsOwnClientsIsWarnedOf(t *testing.T) {
	p := load(t, "pools: {llm: {tokens: [{label: a, secret: abc}]}}\nsites:\n  - {host: llm.pool, backends: [https://b.test]}\n  - {host: b.test, pool: llm}\n")
	if all := strings.Join(p.Warnings(), "\n"); !strings.Contains(all, "sites[0]: requests that go to the backend b.test:443 get no token of the pool llm") {
		t.Error(all)
	}
}
