package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

// Describe writes what the configuration means.
func (p *Policy) Describe(w io.Writer) { WriteParts(w, p.Parts(nil)) }

func full(t *testing.T) *Policy {
	t.Helper()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return load(t, string(data), "HOME", "/home/somebody", "ABIDE_ADMIN_TOKEN", "canary-1", "NEWS_SECRET", "canary-2")
}

func TestTheWholeConfigurationOfTheDesignLoads(t *testing.T) {
	p := full(t)
	site := p.Sites[1]
	switch {
	case p.Admin.Token.Reveal() != "canary-1", p.Access.Clients[0].Secret.Reveal() != "canary-2", p.Access.Clients[0].Weight != 2,
		p.Data != "/home/somebody/.local/state/abide", p.Shard != Shard{17, 100, "url"}, p.Queue.Wait != 30*time.Minute, p.Retry.Body != mib,
		len(p.Sites) != 3, site.Priority != 2, !site.Robots, !site.Coalesce, len(site.Limits) != 3, site.Limits[0].Amount != 1e6,
		p.Sites[0].Limits[2].Per.Calendar != "month", p.Pools[0].Column != "bearer_token", len(p.Sites[2].Backends) != 2, p.Defaults.Limits[0].Amount != 32:
		t.Errorf("%+v", p)
	}
}

func TestDescribeSaysWhatTheConfigurationMeans(t *testing.T) {
	var b bytes.Buffer
	full(t).Describe(&b)
	for _, want := range []string{
		"proxy           127.0.0.1:3128, for loopback, private with the secret of news (weight 2, priority 3 or less urgent)\n",
		"admin           127.0.0.1:9128, with a token\n",
		"as Authorization: Bearer {token}\n",
		"900 requests per 15m by token (rolling)\n",
		"backends https://nitter-a.example, https://nitter-b.example, adaptive\n",
		"breaker         failures 10, pause 30s\n",
		"other sites     32 in flight\n                for plain http, and the https that intercept opens\n",
		"shard           17 of 100, parts of the URLs by their hash, from 0 on\n",
		"queue           max 10000, per_site 2000, wait 30m, aging 30s\n",
		"retry           attempts 4, refusals 20, base 500ms, max 1m, body 1MiB\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	load(t, "{abide: {headers: off}, access: {clients: [{name: a, secret: x, priority: 0, weight: 3}, {name: b, secret: y}]}}").Describe(&b)
	for _, want := range []string{"answers         without Abide- headers\n", "the secret of a (weight 3, priority 0 or less urgent), b\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	Defaults().Describe(&b)
	if !strings.Contains(b.String(), "no file, the defaults") || !strings.Contains(b.String(), "other sites     32 in flight\n") {
		t.Errorf("the defaults do not say what they are:\n%s", b.String())
	}
	for text, want := range map[string]string{
		"defaults: {limits: []}": "other sites     no limits\n",
		"{intercept: none, defaults: {limits: [{concurrency: 2}, {requests: 3, per: 1s}]}}": "other sites     2 in flight\n                3 requests per 1s (rolling)\n                for plain http alone, as intercept is none\n",
		"intercept: all":         "other sites     32 in flight\n",
		"breaker: {failures: 0}": "breaker         off\n",
		"sites: [{host: a.pool, backends: [https://b.test, \"http://[::1]:8080\"], balance: round-robin, sticky: on, limits: [{concurrency: 2}]}]": "backends https://b.test, http://[::1]:8080, round-robin, a client stays with one; each has the limits for itself\n",
		"sites: [{host: a.test, robots: on, coalesce: on}]": "keeps to the Crawl-delay of robots.txt\n                identical requests in flight share one answer\n",
	} {
		b.Reset()
		load(t, text).Describe(&b)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", text, want, b.String())
		}
		if text == "intercept: all" && !strings.Contains(b.String(), want+"learn ") {
			t.Errorf("%s: more of %q in\n%s", text, want, b.String())
		}
	}
}

func TestExplainSaysWhichRuleHoldsAndHowARequestGetsThere(t *testing.T) {
	p := load(t, `sites:
  - {host: ["*.example.com", example.com], group: domain, name: ours}
  - {host: plain.test, limits: [{requests: 1, per: 1s}]}
  - {host: my.pool, backends: ["https://named.test", "http://b.test"], limits: [{concurrency: 2}]}
egress:
  resolve: {"named.test:443": 127.0.0.1:9443}
`)
	for target, want := range map[string][]string{
		"https://a.example.com":   {"site            example.com\n", "sites[0] in line 2, by *.example.com", "CONNECT         intercepted for the command of abide run and clients that use 127.0.0.1:3129 (abide env)\n                for others tunnelled unread (intercept: auto)"},
		"https://other.test":      {"rule            none, so the defaults hold\n                32 in flight\n", "tunnelled unread (intercept: auto), so the limits of defaults do not hold there\n", "direct, to public addresses"},
		"http://other.test":       {"rule            none, so the defaults hold\n                32 in flight\nway "},
		"https://my.pool":         {"backends https://named.test, http://b.test, adaptive; each", "intercepted (intercept: auto)", "way             to https://named.test: to 127.0.0.1:9443 (egress.resolve)\n                to http://b.test: direct, to public"},
		"https://other.test:8443": {"refused: egress.ports is 80, 443"},
		"https://plain.test":      {"intercepted (intercept: auto)", "1 request per 1s"},
		"http://plain.test":       {"target          http://plain.test:80\n"},
		"https://named.test":      {"to 127.0.0.1:9443 (egress.resolve)"},
	} {
		scheme, host, _ := strings.Cut(target, "://")
		parsed, err := ParseTarget(scheme, host)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		p.Explain(&b, parsed, "", false)
		for _, one := range want {
			if !strings.Contains(b.String(), one) {
				t.Errorf("%s: no %q in\n%s", target, one, b.String())
			}
		}
		if scheme == "http" && strings.Contains(b.String(), "CONNECT") {
			t.Errorf("%s has a CONNECT:\n%s", target, b.String())
		}
	}
}

func TestExplainSaysWhoOpensHTTPS(t *testing.T) {
	for text, want := range map[string]string{
		"listen_open: off":                    "CONNECT         intercepted for the command of abide run\n                for others tunnelled unread (intercept: auto)",
		"{listen_open: off, intercept: auto}": "CONNECT         tunnelled unread (intercept: auto)",
		"{intercept: other.test}":             "CONNECT         intercepted for clients that use 127.0.0.1:3129 (abide env)\n                for others tunnelled unread (intercept: other.test)",
		"{intercept: all}":                    "CONNECT         intercepted (intercept: all)",
	} {
		var b bytes.Buffer
		load(t, text).Explain(&b, Target{Scheme: "https", Host: "a.test", Port: 443}, "", false)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", text, want, b.String())
		}
	}
}

func TestExplainSaysWhoGoesFirst(t *testing.T) {
	p := load(t, `access:
  clients:
    - {name: news, secret: abcdefgh, weight: 3, priority: 2, limits: [{requests: 5, per: 1s}]}
    - {name: batch, secret: hijklmno}
sites: [{host: a.test, priority: 1}, {host: b.test}]
`)
	var b bytes.Buffer
	p.Explain(&b, Target{Scheme: "https", Host: "a.test", Port: 443}, "", false)
	for _, want := range []string{"priority 1\n", "client news     weight 3, priority 2 or less urgent\n                5 requests per 1s (rolling), for all its requests together\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if got := p.Turns(); got != "news (weight 3, priority 2 or less urgent), a.test (priority 1)" {
		t.Error(got)
	}
	if got := load(t, "sites: [{host: b.test}]").Turns(); got != "" {
		t.Error(got)
	}
}

func TestExplainSaysWhichLimitsAreNotAboutAPath(t *testing.T) {
	const rules = "sites: [{host: a.test, limits: [{requests: 9, per: 1m}, {requests: 3, per: 1m, method: GET, path: /a/*}, {requests: 2, per: 1m, path: /b}]}]\n"
	target := Target{Scheme: "https", Host: "a.test", Port: 443}
	var b bytes.Buffer
	load(t, rules).Explain(&b, target, "/a/1", false)
	for _, want := range []string{"  9 requests per 1m (rolling)\n", "for GET /a/* (rolling)\n", "for /b (rolling), not for this path\n", "intercepted (intercept: auto)\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	load(t, rules+"intercept: none").Explain(&b, target, "", false)
	if !strings.Contains(b.String(), "(intercept: none), so limits of its rule do not hold there\n") || strings.Contains(b.String(), "not for this path") {
		t.Errorf("a tunnel around the limits:\n%s", b.String())
	}
}

func TestInterceptIsForHostsWhoseRuleNeedsToSeeRequests(t *testing.T) {
	const rules = "sites: [{host: seen.test, limits: [{requests: 1, per: 1s}]}, {host: bytes.test, limits: [{bytes: 1MB, per: 1m}]}, {host: flight.test, limits: [{concurrency: 2, by: client}]}, {host: \"*.seen.test\", robots: true}, {host: pool.test, backends: [https://b.test]}, {host: same.test, coalesce: on}, {host: bare.test, priority: 1}]\n" +
		"defaults: {limits: [{requests: 1, per: 1s, by: route}, {concurrency: 1}]}\n"
	for mode, want := range map[string]string{
		"auto": "seen.test a.seen.test flight.test pool.test same.test", "all": "seen.test a.seen.test bytes.test flight.test pool.test same.test bare.test other.test", "none": "", "[other.test, \"*.seen.test\"]": "a.seen.test other.test",
	} {
		p := load(t, rules+"intercept: "+mode)
		var got []string
		for _, host := range []string{"seen.test", "a.seen.test", "bytes.test", "flight.test", "pool.test", "same.test", "bare.test", "other.test"} {
			if p.Interception(host, 443, false).Open {
				got = append(got, host)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s intercepts %v, want %s", mode, got, want)
		}
	}
	for mode, want := range map[string][]string{"auto": {"seen.test", "flight.test", "pool.test", "same.test"}, "none": {}, "all": nil, "[a.test, \"*.a.test\", 127.1]": {"a.test", "127.0.0.1"}, "\"*\"": nil} {
		got := load(t, rules+"listen_open: off\nintercept: "+mode).InterceptNames()
		if !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
	}
	if Defaults().Interception("a.test", 443, false).Open {
		t.Error("the defaults intercept")
	}
}

func TestASecretShowsNowhere(t *testing.T) {
	s := NewSecret("canary")
	holder := struct {
		A Secret
		B *Secret
		C map[string]Secret
	}{s, &s, map[string]Secret{"x": s}}
	asJSON, _ := json.Marshal(holder)
	asYAML, _ := yaml.Marshal(holder)
	all := string(asJSON) + string(asYAML)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s", "%p"} {
		all += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, holder.A) + fmt.Sprintf(verb, holder.C)
	}
	all += fmt.Sprint(s) + fmt.Sprintln(holder.C, holder.A) + fmt.Errorf("x %v", s).Error()
	if strings.Contains(all, "canary") || strings.Contains(all, "63616e617279") || strings.Contains(all, "63616E617279") {
		t.Error(all)
	}
	if !s.Equal("canary") || s.Equal("canarx") || s.Equal("") || (Secret{}).Equal("") || !(Secret{}).Empty() || fmt.Sprint(Secret{}) != "" {
		t.Error("comparison")
	}
}

func TestTheNextHopHasItsPasswordOnlyWhereItIsDialed(t *testing.T) {
	p := load(t, "egress: {proxy: \"http://user:canary@Proxy.TEST.:3128/\"}")
	if got := fmt.Sprintf("%v %+v %s", p.Egress, p.Egress, p.Egress.Proxy); strings.Contains(got, "canary") {
		t.Error(got)
	}
	hop := p.Egress.NextHop()
	if password, _ := hop.User.Password(); password != "canary" || hop.Host != "proxy.test:3128" || hop.User.Username() != "user" {
		t.Error(hop.Redacted())
	}
	if (Egress{}).NextHop() != nil {
		t.Error("a next hop out of nothing")
	}
}

func TestDurationsAndSizesReadBackAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, day}).Draw(t, "unit")
		d := time.Duration(rapid.Int64Range(1, int64(longest/unit)).Draw(t, "n")) * unit
		if got, err := ParseDuration(formatDuration(d)); err != nil || got != d {
			t.Fatalf("%d is written %s, which is %d, %v", d, formatDuration(d), got, err)
		}
		s := Size(rapid.Int64Range(1, 1<<60).Draw(t, "size"))
		if rapid.Bool().Draw(t, "round") {
			s = s/gib*mib + mib
		}
		if got, err := ParseSize(s.String()); err != nil || got != s {
			t.Fatalf("%d is written %s, which is %d, %v", s, s, got, err)
		}
	})
	for d, want := range map[time.Duration]string{90 * time.Second: "1m30s", day: "1d", 36 * time.Hour: "1d12h", 1500 * time.Millisecond: "1.5s", 500 * time.Millisecond: "500ms", 0: "0s"} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
	for s, want := range map[Size]string{0: "0B", 1: "1B", 1000: "1kB", 1024: "1KiB", mib: "1MiB", 1e6: "1MB", 16 * gib: "16GiB", 1500: "1500B"} {
		if got := s.String(); got != want {
			t.Errorf("%d is written %s, want %s", int64(s), got, want)
		}
	}
}

func TestTheNearestWordIsSuggestedOnlyWhenItIsNear(t *testing.T) {
	words := []string{"listen", "limits", "level", "per_site", "on"}
	for wrong, want := range map[string]string{
		"lisetn": "listen", "Listen": "listen", "lvel": "level", "perSite": "per_site", "per-site": "per_site", "xyz": "", "": "", "o": "", strings.Repeat("listen", 20): "",
	} {
		if got := nearest(wrong, words); got != want {
			t.Errorf("%q is near %q, want %q", wrong, got, want)
		}
	}
}
