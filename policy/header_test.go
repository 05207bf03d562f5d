package policy

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestARuleHasHeadersAndAStall(t *testing.T) {
	p := load(t, `sites:
  - host: a.test
    stall: off
    headers:
      set: {user-agent: " ours/1 (+https://example.org; me@example.org) "}
      default: {accept-language: en}
  - {host: b.test, stall: 10m}
  - {host: c.test}
`)
	var b bytes.Buffer
	p.Describe(&b)
	p.Explain(&b, Target{Scheme: "https", Host: "a.test", Port: 443}, "", false)
	for want, times := range map[string]int{
		"header User-Agent: ours/1 (+https://example.org; me@example.org)\n": 2,
		"header Accept-Language: en, where the client sends none\n":          2,
		"a stream may be silent for as long as it likes\n":                   2,
		"a stream that is silent for 10m is cut\n":                           1,
		"CONNECT         intercepted (intercept: auto)\n":                    1, // to write the headers
	} {
		if got := strings.Count(b.String(), want); got != times {
			t.Errorf("%q is %d times, not %d, in\n%s", want, got, times, b.String())
		}
	}
	for i, want := range []time.Duration{0, 10 * time.Minute, time.Minute} {
		if got := p.Sites[i].StallOr(time.Minute); got != want {
			t.Errorf("sites[%d]: %v, not %v", i, got, want)
		}
	}
	if got := (*Site)(nil).StallOr(time.Minute); got != time.Minute {
		t.Errorf("without a rule: %v", got)
	}
	if got := Changes(p, load(t, "sites: [{host: a.test}, {host: b.test, stall: 10m}, {host: c.test}]"), nil); !slices.Equal(got, []string{"headers of a.test changed", "stall of a.test off → none"}) {
		t.Errorf("%q", got)
	}
}

func TestHeadersThatARuleMayNotWriteAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{set: {Host: x}}":                                   "sites[0].headers.set.Host: is not for a rule to write",
		"{set: {connection: close}}":                         "headers.set.connection: is not for a rule to write",
		"{default: {HTTP2-Settings: x}}":                     "is not for a rule to write",
		"{default: {Proxy-Foo: x}}":                          "is not for a rule to write",
		"{set: {Abide-Priority: 1}}":                         "is not for a rule to write",
		"{set: {accept-encoding: br}}":                       "the client knows which encodings it reads",
		"{set: {authorization: Bearer x}}":                   `is a credential, which headers show; write a pool with put: "Authorization: {token}"`,
		"{set: {X-API-Key: x}}":                              "is a credential",
		"{default: {Cookie: x}}":                             "is a credential",
		"{set: {\"a b\": x}}":                                "is not the name of a header",
		"{set: {Accept: \"\"}}":                              "is empty",
		"{set: {Accept: \"a\\nb\"}}":                         "has a control character",
		"{set: {Accept: a}, default: {accept: b}}":           "headers.default.accept: is written twice",
		"{set: {User-Agent: ${UA}}}":                         "in secrets only",
		"{sets: {Accept: a}}":                                `did you mean "set"?`,
		"{set: {Accept: " + strings.Repeat("x", 5000) + "}}": "is longer than 4096 bytes",
	} {
		refuse(t, "sites: [{host: a.test, headers: "+text+"}]\n", want)
	}
	refuse(t, "pools: {p: {env: P, put: \"X-Id: {token}\"}}\nsites: [{host: a.test, pool: p, headers: {set: {x-id: y}}}]\n",
		"sites[0].pool: puts its tokens into X-Id, which headers writes, too")
	for _, text := range []string{"500ms", "2d", "never", "0"} {
		refuse(t, "sites: [{host: a.test, stall: "+text+"}]\n", "sites[0].stall: ")
	}
}
