package policy

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLimitsOfBytesSayWhatTheyCount(t *testing.T) {
	for text, want := range map[string]string{
		"{bytes: 1MB, per: 1m}":                                    "1MB per 1m (fixed)",
		"{bytes: 1MB, per: 1m, stall: 90s}":                        "1MB per 1m (fixed)",
		"{bytes: 1MB, per: 1m, as: rolling, stall: 2m}":            "1MB per 1m, stall 2m (rolling)",
		"{bytes: 1MB, per: 1m, as: first-use, by: client}":         "1MB per 1m by client (first-use)",
		"{bytes: 1MB, per: 1m, as: bucket}":                        "1MB per 1m, 1MB at once (bucket)",
		"{bytes: 1MB, per: 1m, as: bucket, burst: 64KiB}":          "1MB per 1m, 64KiB at once (bucket)",
		"{bytes: 5GB, per: month, timezone: Europe/Berlin}":        "5GB per month (quota, Europe/Berlin)",
		"{bytes: 4KiB, per: 1s, method: GET, path: /a, by: route}": "4KiB per 1s by route for GET /a (fixed)",
	} {
		l := load(t, "sites: [{host: a.test, limits: ["+text+"]}]").Sites[0].Limits[0]
		if got := l.String(); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
		if l.Stall < time.Second || strings.Contains(text, "stall") == (l.Stall == DefaultStall) && !strings.Contains(text, "90s") {
			t.Errorf("%s stalls for %s", text, l.Stall)
		}
	}
	for text, want := range map[string]string{
		"{bytes: 4000B, per: 1m}":                                 `.bytes: "4000B" is less than 4KiB, in which no answer with its headers and TLS would fit; did you mean 4000kB?`,
		"{bytes: 3.5KiB, per: 1m}":                                "is less than 4KiB",
		"{bytes: 1000, per: 1m}":                                  "needs a unit",
		"{bytes: 2000TB, per: 1m}":                                "is more than 1000TB",
		"{bytes: 1MB}":                                            "needs per",
		"{bytes: 1MB, per: 1m, as: bucket, burst: 2}":             `.burst: "2" needs a unit`,
		"{bytes: 1MB, per: 1m, as: bucket, burst: 2kB}":           ".burst: \"2kB\" is less than 4KiB",
		"{bytes: 1MB, per: 1m, burst: 64KiB}":                     "has a burst, which only as: bucket",
		"{requests: 10, per: 1m, as: bucket, burst: 64KiB}":       ".burst: \"64KiB\" is not a whole number",
		"{bytes: 1MB, per: 1m, as: paced}":                        "as: bucket with a burst such as 64KiB",
		"{bytes: 1MB, per: 1m, as: concurrency}":                  "as: concurrency goes with concurrency",
		"{bytes: 1MB, as: adaptive, min: 1/s, max: 2/s}":          "finds out how many requests a site bears",
		"{bytes: 1MB, per: 1m, each: 2}":                          "bytes are counted as they come",
		"{bytes: 1MB, per: 1m, min: 1/s}":                         "for as: adaptive",
		"{bytes: 1MB, per: 1m, stall: 10ms}":                      ".stall: \"10ms\" is less than 1s",
		"{bytes: 1MB, per: 1m, stall: 2d}":                        "is more than 1d",
		"{bytes: 1MB, per: 1m, stall: day}":                       "is not a duration",
		"{concurrency: 1, stall: 9s}":                             "means nothing for what is in flight",
		"{cost: 1, per: 1m, stall: 9s}":                           "has stall, which is for bytes",
		"{bytes: 1MB, per: 1m}, {bytes: 2MB, per: 1m, stall: 9s}": "limits the same as line 1",
		"{bytes: 1MB, per: 1m, by: token}":                        "where there is no pool",
	} {
		refuse(t, "sites: [{host: a.test, limits: ["+text+"]}]", "abide.yaml:1: sites[0].limits", want)
		if !strings.Contains(text, "token") {
			refuse(t, "defaults: {limits: ["+text+"]}", "abide.yaml:1: defaults.limits", want)
		}
	}
	load(t, "pools: {p: {env: A, limits: [{bytes: 1MB, per: day, by: token}]}}\nsites: [{host: a.test, pool: p}]\ndefaults: {limits: [{bytes: 1MB, per: 1m, by: client}]}")
}

// Bytes are counted in a tunnel unless only its requests would tell whose they are.
func TestBytesOpenNoTunnelUnlessTheyMust(t *testing.T) {
	for text, want := range map[string]bool{
		"{bytes: 1MB, per: 1m}":                                  false,
		"{bytes: 1MB, per: 1m, by: client, as: rolling}":         false,
		"{bytes: 1MB, per: 1m, by: route}":                       true,
		"{bytes: 1MB, per: 1m, path: /a}":                        true,
		"{bytes: 1MB, per: 1m, method: GET}":                     true,
		"{bytes: 1MB, per: 1m}, {concurrency: 2}":                true,
		"{bytes: 1MB, per: 1m}, {bytes: 9MB, per: 1h}":           false,
		"{bytes: 1MB, per: 1m}, {bytes: 9MB, per: 1m, path: /a}": true,
	} {
		p := load(t, "sites: [{host: a.test, limits: ["+text+"]}]")
		if got := p.Interception("a.test", 443, false).Open; got != want {
			t.Errorf("%s is intercepted: %v", text, got)
		}
		p = load(t, "intercept: none\nsites: [{host: a.test, limits: ["+text+"]}]")
		if got := len(p.Warnings()) > 0; got != want {
			t.Errorf("%s: %q", text, p.Warnings())
		}
	}
}

func TestWhatATunnelKeepsIsSaid(t *testing.T) {
	const rules = "intercept: none\nsites: [{host: a.test, limits: [{bytes: 1MB, per: 1m}, {concurrency: 2}]}, {host: b.test, limits: [{bytes: 1MB, per: 1m, by: client}]}]\n" +
		"defaults: {limits: [{bytes: 2MB, per: 1h}, {concurrency: 9}]}\n"
	p := load(t, rules)
	if got := strings.Join(p.Warnings(), "\n"); !strings.Contains(got, "a.test has limits other than of bytes, but") || strings.Contains(got, "b.test") {
		t.Error(got)
	}
	var b bytes.Buffer
	p.Describe(&b)
	for _, want := range []string{
		"                bytes count both ways, with headers and TLS, in tunnels too; a body that stands still for 1m30s is cut\n",
		"other sites     2MB per 1h (fixed)\n                9 in flight\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for host, want := range map[string]string{
		"a.test": "(intercept: none), so limits other than of bytes of its rule do not hold there\n",
		"b.test": "tunnelled unread (intercept: none)\n",
		"c.test": "so the limits other than of bytes of defaults do not hold there\n",
	} {
		b.Reset()
		p.Explain(&b, Target{Scheme: "https", Host: host, Port: 443}, "", false)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", host, want, b.String())
		}
	}
}
