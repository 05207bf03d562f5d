package policy

import (
	"strings"
	"testing"
)

const bound = `
egress: {hosts: ["*.test", münchen.example, 192.0.2.7]}
pools:
  x: {tokens: [{label: a, secret: s}]}
  y: {tokens: [{label: b, secret: s}]}
sites:
  - {host: api.test, pool: x}
  - {host: "*.shop.test", pool: y, name: shop, group: rule}
  - {host: plain.test}
access:
  clients:
    - {name: all, secret: s}
    - {name: shop, secret: s, sites: [shop, PLAIN.test.], pools: []}
    - {name: api, secret: s, hosts: ["api.test:443", plain.test], pools: [x]}
`

func TestAClientMayUseItsHostsItsRulesAndItsPools(t *testing.T) {
	p := load(t, bound)
	for _, c := range []struct{ client, host, why string }{
		{"", "api.test:443", ""},
		{"", "xn--mnchen-3ya.example:443", ""},
		{"", "192.0.2.7:80", ""},
		{"", "192.0.2.8:80", "egress.hosts does not list 192.0.2.8:80"},
		{"", "test:80", "egress.hosts does not list"},
		{"", "eviltest:80", "egress.hosts does not list"},
		{"all", "other.test:80", ""},
		{"all", "api.test:443", ""},
		{"all", "example.com:443", "egress.hosts does not list example.com:443; the operator can add it there"},
		{"shop", "plain.test:443", ""},
		{"shop", "a.shop.test:443", "a token of the pool y, which its pools do not list; the operator can change pools of that client in access.clients"},
		{"shop", "api.test:443", "not for the client shop: its sites do not list the rule api.test"},
		{"shop", "other.test:443", "no rule names other.test:443"},
		{"api", "api.test:443", ""},
		{"api", "api.test:80", "its hosts do not list api.test:80"},
		{"api", "plain.test:8080", ""},
		{"api", "a.shop.test:443", "its hosts do not list"},
	} {
		target, err := ParseTarget("https", c.host)
		if err != nil {
			t.Fatal(err)
		}
		if why := p.Forbids(p.Client(c.client), target); !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%q at %s: %q, want %q", c.client, c.host, why, c.why)
		}
	}
	var b strings.Builder
	p.Describe(&b)
	for _, text := range []string{
		"client shop     uses the rules shop, PLAIN.test., nothing else\n                gets no token\n",
		"client api      reaches api.test:443, plain.test, nothing else\n                gets tokens of the pools x alone\n",
		"hosts           *.test, xn--mnchen-3ya.example, 192.0.2.7, all others are refused\n",
	} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("no %q in\n%s", text, b.String())
		}
	}
	b.Reset()
	p.Explain(&b, Target{Scheme: "https", Host: "api.test", Port: 443}, "", false)
	if !strings.Contains(b.String(), "refused         with 403: not for the client shop: its sites do not list the rule api.test") || strings.Contains(b.String(), "client api") {
		t.Error(b.String())
	}
	b.Reset()
	p.Explain(&b, Target{Scheme: "https", Host: "example.com", Port: 443}, "", false)
	if strings.Count(b.String(), "with 403: egress.hosts does not list example.com:443") != 1 {
		t.Error(b.String())
	}
}

func TestAClientCanOnlyBeBoundToWhatThereIs(t *testing.T) {
	for document, want := range map[string]string{
		"access:\n  clients:\n    - {name: a, secret: s, sites: [api.tset]}\nsites: [{host: api.test}]\n": `abide.yaml:3: access.clients[0].sites[0]: "api.tset" is neither the name nor a host of a rule in sites; did you mean "api.test"?`,
		"access: {clients: [{name: a, secret: s, pools: [x]}]}\n":                                         `access.clients[0].pools[0]: "x" is not a pool`,
		"access: {clients: [{name: a, secret: s, sites: []}]}\n":                                          "access.clients[0].sites: is empty",
		"access: {clients: [{name: a, secret: s, hosts: []}]}\n":                                          "access.clients[0].hosts: is an empty list",
		"access: {clients: [{name: a, secret: s, hosts: [a.test, \"http://b\"]}]}\n":                      `access.clients[0].hosts[1]: host "http://b" has a scheme`,
		"egress: {hosts: []}\n":                       "egress.hosts: is an empty list, so nothing could be reached",
		"egress: {hosts: [\"*.a.test\", b.a.test]}\n": "egress.hosts[1]: b.a.test is covered by *.a.test already",
		"egress: {hosts: [\"a*.test\"]}\n":            "that is not a whole pattern",
		"sites: [{host: a.test, trace: perhaps}]\n":   "sites[0].trace",
	} {
		refuse(t, document, want)
	}
	if p := load(t, `{egress: {hosts: "*"}, access: {clients: [{name: a, secret: s, hosts: "*"}]}}`); p.Egress.Hosts != nil || p.Access.Clients[0].Hosts != nil {
		t.Errorf("%+v", p.Access)
	}
}

func TestChangedRightsOfAClientAreAChange(t *testing.T) {
	same := load(t, bound)
	if c := Changes(same, load(t, bound), nil); len(c) != 0 {
		t.Error(c)
	}
	if c := ChangesText(Changes(same, load(t, strings.Replace(bound, "pools: [x]", "pools: [y]", 1)), nil)); c != "pools of client api changed" {
		t.Error(c)
	}
}
