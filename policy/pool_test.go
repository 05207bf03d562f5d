package policy

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

const aPool = "\npools: {p: {env: T}}\n"

func TestAPoolGoesWhereItsTokensCanAndNowhereElse(t *testing.T) {
	for _, one := range []struct{ text, want string }{
		{"sites:\n  - host: a.test\n    pool: q" + aPool, `abide.yaml:3: sites[0].pool: "q" is not a pool`},
		{"pools: {twitter: {env: T}}\nsites:\n  - host: a.test\n    pool: twiter\n", `abide.yaml:4: sites[0].pool: "twiter" is not a pool; did you mean "twitter"?`},
		{"sites:\n  - host: [a.test, \"*\"]\n    pool: p" + aPool, "abide.yaml:3: sites[0].pool: would send its secrets to every host; name the hosts"},
		{"sites:\n  - host: \"*.co.uk\"\n    pool: p" + aPool, "abide.yaml:3: sites[0].pool: would send its secrets to everybody's hosts below co.uk; name the domain"},
		{"sites:\n  - host: a.test\n    backends: [https://b.test]\n    pool: p" + aPool, "abide.yaml:4: sites[0].pool: goes with no backends: tokens are for the hosts that the rule names"},
		{"sites:\n  - host: a.test\n    insecure: true\n", "abide.yaml:3: sites[0].insecure: is about the tokens of a pool, and there is none"},
		{"sites:\n  - host: a.test\n    limits:\n      - {requests: 1, per: 1m, by: token}\n", "abide.yaml:4: sites[0].limits[0]: counts by token where there is no pool, which a rule has with pool: NAME"},
		{"defaults:\n  limits: [{concurrency: 1, by: token}]\n", "abide.yaml:2: defaults.limits[0]: counts by token where there is no pool"},
		{"pools:\n  p:\n    env: T\n    limits: [{concurrency: 1}]\n", "abide.yaml:4: pools.p.limits[0]: needs by: token, as limits of a pool are each token's"},
		{"pools:\n  p: {env: T, limits: [{concurrency: 1, by: client}]}\n", "abide.yaml:2: pools.p.limits[0]: needs by: token"},
		{"pools:\n  p/q: {env: T}\n", "abide.yaml:2: pools.p/q: is not a name for a pool"},
		{"pools:\n  p: {env: T, resrve: 1}\n", `abide.yaml:2: pools.p.resrve: is not a key; did you mean "reserve"?`},

		{"intercept: none\nsites:\n  - host: a.test\n    pool: p" + aPool, "abide.yaml:4: sites[0].pool: puts its tokens into requests, which nobody sees inside of https with intercept: none; write intercept: auto, or a list that has a.test"},
		{"intercept: none\nsites:\n  - host: a.test\n    insecure: true\n    pool: p" + aPool, "abide.yaml:5: sites[0].pool: puts its tokens into requests, which nobody sees inside of https with intercept: none"},
		{"intercept: [b.test]\nsites:\n  - host: [b.test, \"*.a.test\"]\n    pool: p" + aPool, "abide.yaml:4: sites[0].pool: puts its tokens into requests, which nobody sees inside of https to *.a.test; add it to intercept, or write intercept: auto"},
		{"intercept: [\"a.test:8443\"]\nsites:\n  - host: a.test\n    pool: p" + aPool, "nobody sees inside of https to a.test; add it"},
		{"sites:\n  - host: \"a.test:80\"\n    pool: p" + aPool, "abide.yaml:3: sites[0].pool: puts its tokens into requests, but none goes over plain http, by which alone a.test:80 can be reached; write insecure: true if everybody on the way may read them, or name another port\n"},
		{"sites:\n  - host: \"a.test:8443\"\n    pool: p" + aPool, "by which alone a.test:8443 can be reached; write insecure: true if everybody on the way may read them, or name another port, or add 8443 to egress.ports\n"},
	} {
		if got := refuse(t, one.text).Error() + "\n"; !strings.Contains(got, one.want) {
			t.Errorf("%s: no %q in\n%s", one.text, one.want, got)
		}
	}
	for _, text := range []string{
		"sites: [{host: \"*.example.com\", pool: p}, {host: [a.test, \"[::1]\"], pool: p}]",
		"sites: [{host: \"*.test\", pool: p}, {host: \"*.github.io\", pool: p}]",
		"intercept: all\nsites: [{host: a.test, pool: p}]",
		"intercept: [\"*.a.test\", \"b.test:443\"]\nsites: [{host: [c.a.test, \"*.b.a.test\", b.test], pool: p}]",
		"intercept: none\nsites: [{host: [\"a.test:80\", \"b.test:8080\"], pool: p, insecure: on}]",
		"intercept: [b.test]\nsites: [{host: [\"a.test:80\", b.test], pool: p, insecure: on}]",
		"egress: {ports: [443, 8443]}\nsites: [{host: \"a.test:8443\", pool: p}]",
	} {
		load(t, text+aPool)
	}
	// The variable comes after the file.
	_, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte("sites: [{host: a.test, pool: p}]" + aPool), Environ: []string{"ABIDE_INTERCEPT=none"}})
	if err == nil || !strings.HasPrefix(err.Error(), "abide.yaml:1: sites[0].pool: puts its tokens") {
		t.Error(err)
	}
}

func TestATokenGoesIntoNoHeaderThatIsNotForIt(t *testing.T) {
	for name, want := range map[string]string{
		"Host": "puts the token into Host, which is not a header for credentials", "content-length": "into Content-Length, which", "Connection": "into Connection, which",
		"Transfer-Encoding": "into", "TE": "into Te, which", "Trailer": "into", "Upgrade": "into", "Keep-Alive": "into", "Expect": "into", "Via": "into", "content_length": "is not a header for credentials",
		"Proxy-Authorization": "which is for proxies and does not reach the site; write Authorization", "Proxy-Connection": "which is for proxies",
		"Abide-Client": "puts the token into Abide-Client, but headers that begin with Abide- are between clients and abide", "abide_token": "begin with Abide-",
	} {
		refuse(t, "pools:\n  p:\n    env: T\n    put: \""+name+": {token}\"\n", "abide.yaml:4: pools.p.put: ", want)
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "PRIVATE-TOKEN", "X-Shopify-Access-Token"} {
		load(t, "pools: {p: {env: T, put: \""+name+": {token}\"}}")
	}
}

func TestARuleHasTheLimitsOfItsPoolToo(t *testing.T) {
	p := load(t, `
pools:
  p: {env: T, limits: [{concurrency: 4, by: token}, {requests: 9, per: 1s, by: token}]}
  q: {env: T}
sites:
  - {host: a.test, pool: p, limits: &l [{requests: 9, per: 1s, by: token}, {concurrency: 2, by: token}, {concurrency: 9}]}
  - {host: b.test, pool: p}
  - {host: c.test, pool: q, limits: *l}
  - {host: d.test}
`)
	for i, want := range []string{
		"9 requests per 1s by token; 2 in flight by token; 9 in flight; 4 in flight by token",
		"4 in flight by token; 9 requests per 1s by token",
		"9 requests per 1s by token; 2 in flight by token; 9 in flight",
		"",
	} {
		var titles []string
		for j := range p.Sites[i].Limits {
			titles = append(titles, p.Sites[i].Limits[j].Title())
		}
		if got := strings.Join(titles, "; "); got != want {
			t.Errorf("sites[%d]: %s, want %s", i, got, want)
		}
	}
	if p.Pool("p") != &p.Pools[0] || p.Pool("q") != &p.Pools[1] || p.Pool("") != nil || p.Pool("x") != nil {
		t.Error("pools are not found by their names")
	}
}

// As far as the configuration says where tokens go.
func TestTokensGoToTheHostsPortsAndSchemesThatTheRuleNames(t *testing.T) {
	p := load(t, `
egress: {ports: any}
sites:
  - {host: ["api.test", "*.example.com", "b.test:8443"], pool: p}
  - {host: [plain.test, "plain2.test:8080"], pool: p, insecure: on}
  - {host: none.test}
`+aPool)
	for url, want := range map[string]bool{
		"https://api.test": true, "https://API.test.": true, "https://api.test:8443": false, "http://api.test": false, "http://api.test:443": false, "https://api.test:80": false,
		"https://a.b.example.com": true, "https://example.com": false, "https://evil-example.com": false, "https://api.test.evil.com": false, "https://evil-api.test": false,
		"https://b.test:8443": true, "http://b.test:8443": false,
		"http://plain.test": true, "https://plain.test": true, "http://plain.test:8080": false, "http://plain2.test:8080": true, "https://plain2.test:8080": true,
		"https://none.test": false, "https://other.test": false,
	} {
		scheme, host, _ := strings.Cut(url, "://")
		target, err := ParseTarget(scheme, host)
		if err != nil {
			t.Fatal(err)
		}
		rule := p.Match(target).Rule
		if got := rule != nil && rule.MaySign(target); got != want {
			t.Errorf("a token goes to %s: %v", url, got)
		}
	}
	if (&Site{Pool: "p", Hosts: []Pattern{{Host: "a"}}}).MaySign(Target{Host: "a", Port: 443}) {
		t.Error("a token goes into a tunnel")
	}
}

func TestPoolsSayWhatTheyDo(t *testing.T) {
	p := load(t, `
pools:
  a: {env: A, reserve: 1.5%, exhausted: refuse, limits: [{concurrency: 4, by: token}], oauth2: {token_url: "https://a.test/token", scopes: [read, write]}}
  b: {dir: /run/b, reserve: 50, anonymous: on, put: "query: key={token}"}
  c: {tokens: [{label: one, secret: canary}]}
defaults: {learn: off}
sites:
  - {host: a.test, pool: a, learn: on, dialect: {headers: [{name: x-left, is: remaining}], body: [{name: left, is: remaining}], refusals: [{says: [no, never]}, {says: not now}]}}
  - {host: b.test, pool: b, insecure: on}
  - {host: c.test, learn: on, dialect: {scope: route}}
`)
	var b bytes.Buffer
	WriteParts(&b, p.Parts(map[string][]string{"a": {"x", "2"}, "b": {"y"}}))
	for _, want := range []string{
		"pool a          tokens of $A as Authorization: Bearer {token}\n                2 tokens: x, 2\n                each is exchanged at https://a.test/token for read, write\n" +
			"                reserve 1.5% of every limit that is learned\n                when none is usable, requests are refused\n                4 in flight by token\n",
		"pool b          tokens in /run/b as query: key={token}\n                1 token: y\n                reserve 50 of every limit that is learned\n                when none is usable, requests go without\n",
		"pool c          tokens one as Authorization: Bearer {token}\n                when none is usable, requests wait\n",
		"learn           no limits, where no rule says otherwise\n",
		"                pool a\n                4 in flight by token\n                a dialect of its own: 1 header, 1 member, 2 refusals\n                learns the limits that the site announces\n",
		"                pool b, over plain http too\n",
		"                a dialect of its own\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, want := range []string{
		"sites[1]: insecure sends the tokens of the pool b over plain http to b.test, where everybody on the way can read them",
		"pools.c: no rule uses it; name it with pool: c",
		"sites[2] (c.test): no effect on https that passes unread",
	} {
		if all := strings.Join(p.Warnings(), "\n"); !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if strings.Contains(b.String(), "canary") {
		t.Error(b.String())
	}
	for url, want := range map[string]string{
		"https://a.test":      "pool            a: a token goes with each request, as Authorization: Bearer {token}\n                when none is usable, requests are refused\nCONNECT         intercepted",
		"http://a.test":       "pool            a, but requests get 403, as no token goes over plain http where the rule does not say insecure: true\n",
		"https://a.test:444":  "pool            a, but requests get 403, as no token goes to port 444, which the rule does not name\n",
		"http://b.test":       "pool            b: a token goes with each request, as query: key={token}\n                when none is usable, requests go without\n",
		"https://b.test":      "learn           no limits are learned there\n",
		"https://nobody.test": "learn           no limits are learned there\n",
	} {
		scheme, host, _ := strings.Cut(url, "://")
		target, err := ParseTarget(scheme, host)
		if err != nil {
			t.Fatal(err)
		}
		b.Reset()
		p.Explain(&b, target, "", false)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", url, want, b.String())
		}
		if strings.Contains(b.String(), "by token") != strings.Contains(host, "a.test") {
			t.Errorf("%s: limits by token in\n%s", url, b.String())
		}
	}
	if got := strings.Join(load(t, "sites: [{host: \"*.github.io\", pool: p}]"+aPool).Warnings(), "\n"); !strings.Contains(got, "sites[0]: anybody can have a host below github.io, and would get the tokens of the pool p") {
		t.Error(got)
	}
	if got := load(t, "sites: [{host: [a.test, b.test], pool: p}, {host: \"*.c.test\", pool: p, dialect: {scope: site}}]"+aPool, "HOME", "/home/somebody").Warnings(); len(got) > 0 {
		t.Error(got)
	}
}

func TestEachSourceOfTokensIsReadAndDescribed(t *testing.T) {
	values := map[string]string{
		"file":   "/run/tokens -> of /run/tokens",
		"env":    "TOKENS -> of $TOKENS",
		"dir":    "/run/secrets -> in /run/secrets",
		"tokens": "[{label: mine, secret: s}] -> mine",
	}
	for _, one := range sourceFields(nil, &Pool{}) {
		value, want, ok := strings.Cut(values[one.name], " -> ")
		if !ok {
			t.Errorf("add %s to this test", one.name)
			continue
		}
		p := load(t, "pools: {p: {"+one.name+": "+value+"}}")
		if want = "tokens " + want + " as Authorization: Bearer {token}"; !slices.Contains(sentences(poolFields(nil, &p.Pools[0])), want) {
			t.Errorf("%s: not %q", one.name, want)
		}
	}
}
