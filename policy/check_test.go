package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestSettingsThatContradictEachOtherAreRefused(t *testing.T) {
	for _, one := range []struct{ text, want string }{
		{"listen: 127.0.0.1:9128\n", "is the address of listen already"},
		{"listen: :3128\naccess: {from: [loopback]}\nadmin: 127.0.0.1:3128\n", "abide.yaml:3: admin: \"127.0.0.1:3128\" is the address of listen already"},
		{"admin: {listen: off, token: x}\n", "abide.yaml:1: admin.token: is for a listener that is off"},
		{"egress: {proxy: \"http://127.0.0.1:3128\"}\n", "egress.proxy: is this proxy itself"},
		{"bounds: {idle: 100, idle_per_host: 101}\n", "bounds.idle_per_host: 101 is more than bounds.idle, which is 100"},
		{"bounds: {idle_per_host: 5000}\n", "5000 is more than bounds.idle, which is 4096"},
		{"bounds: {connections: 10, per_client: 11}\n", "11 is more than bounds.connections"},
		{"queue: {max: 10, per_site: 11}\n", "11 is more than queue.max"},
		{"retry: {base: 2m, max: 1m}\n", "2m is more than retry.max, which is 1m"},
		{"retry: {body: 2MiB, memory: 1MiB}\n", "2MiB is more than retry.memory"},
		{"timeouts: {tunnel_idle: 2h, tunnel_life: 1h}\n", "2h is more than timeouts.tunnel_life"},
		{"shard: {index: 100, of: 100}\n", "100 is not below shard.of"},
		{"shard: {index: 1}\n", "shard.index: needs shard.of"},
		{"shard: {of: 2}\n", "shard.of: needs shard.index"},
		{"shard: {by: host}\n", "shard.by: needs shard.index and shard.of"},
		{"shard: {index: 1, of: 2, by: hots}\n", `did you mean "host"?`},
		{"data: none\nstrict_state: true\n", "is about what is kept in data, which is none"},
		{"access: {clients: [{name: a, secret: x}, {name: a, secret: y}]}\n", `access.clients[1].name: is the name of line 1 already`},
		{"access: {clients: [{name: \"a:b\", secret: x}]}\n", "has a colon"},
		{"access: {clients: [{name: a}]}\n", "access.clients[0]: needs secret"},
		{"access: {clients: [{name: a, secret: x, priority: 8}]}\n", `access.clients[0].priority: "8" is more than 7`},
		{"access: {clients: [{name: a, secret: x, weight: 0}]}\n", "less than 1"},
		{"access: {clients: []}\n", "is empty"},
		{"access: {from: []}\n", "nobody could connect"},
		{"access: {from: [any, private]}\n", "leave the others out"},
		{"access: {from: [lopback]}\n", `did you mean "loopback"?`},
		{"access: {from: [10.0.0.1/8]}\n", "did you mean 10.0.0.0/8?"},
		{"egress: {allow: [\"::ffff:10.0.0.0/104\"]}\n", "write it as IPv4"},
		{"egress: {allow: [10.0.0.0/33]}\n", "egress.allow[0]"},
		{"egress: {ports: [80, any]}\n", "any stands alone"},
		{"egress: {ports: [80, 443, 80]}\n", "egress.ports[2]: port 80 is listed twice"},
		{"egress: {ports: [0]}\n", "is not a port"},
		{"egress: {proxy: proxy.test:3128}\n", "egress.proxy"},
		{"egress: {proxy: \"http://proxy.test\"}\n", "needs a valid host and a port"},
		{"egress: {resolve: {a.test: 127.0.0.1:1}}\n", "needs a port"},
		{"egress: {resolve: {\"a.test:1\": b.test:1}}\n", "is not an address and a port"},
		{"intercept: []\n", "write none"},
		{"intercept: atuo\n", `did you mean "auto"?`},
		{"intercept: [a.test, all]\n", "all stands alone"},
		{"intercept: [\"*.a.test\", b.a.test]\n", "intercept[1]: b.a.test is covered by *.a.test already"},
		{"breaker: {failures: 1000001}\n", `breaker.failures: "1000001" is more than 1000000`},
		{"breaker: {failures: -1}\n", "is not a whole number"},
		{"breaker: {pause: 0s}\n", "is no time at all"},
		{"breaker: {pause: 61m}\n", `breaker.pause: "61m" is more than 1h`},
		{"breaker: {pause: 30}\n", "needs a unit"},
		{"breaker: off\n", "breaker: takes keys with values"},
		{"breaker: {failure: 3}\n", `did you mean "failures"?`},
		{"defaults: {limits: [{requests: 5}, {concurrency: 0}]}\n", "defaults.limits[1].concurrency: \"0\" is less than 1"},
		{"defaults: {limits: {concurrency: 5}}\n", "defaults.limits: takes a list"},
		{"defaults: {limits: [{concurrency: 5, by: token}]}\n", "where there is no pool"},
		{"defaults: {limits: [{concurrency: 5}, {concurrency: 6}]}\n", "limits the same as line 1"},
		{"mode: obsreve\n", `did you mean "observe"?`},
		{"store: redsi://h:1\n", "none of redis"},
		{"listen: example.com:3128\n", "is not an IP address"},
		{"listen: \"*:3128\"\n", "write :3128 for every address"},
		{"listen: \"::1:3128x\"\n", "port"},
		{"listen: \"[127.0.0.1]:1\"\n", "is written 127.0.0.1:1"},
	} {
		refuse(t, one.text, one.want)
	}
}

func TestRulesThatCanNeverMatchAreRefused(t *testing.T) {
	for _, one := range []struct{ text, want string }{
		{"sites:\n  - host: \"*.example.com\"\n  - host: api.example.com\n", "abide.yaml:3: sites[1].host: api.example.com never comes to this rule: *.example.com in line 2 comes first"},
		{"sites:\n  - host: \"*\"\n  - host: a.test\n", "* in line 2 comes first"},
		{"sites:\n  - host: a.test\n  - host: [b.test, A.TEST.]\n", "sites[1].host[1]: a.test never comes"},
		{"sites:\n  - host: a.test\n  - host: a.test:8443\n", "never comes"},
		{"sites:\n  - host: [a.test, a.test]\n", "is listed twice"},
		{"sites: [{name: x}]\n", "sites[0]: needs host"},
		{"sites: [{host: []}]\n", "sites[0].host: is empty"},
		{"sites: [{host: a.test, name: x}, {host: b.test, name: x}]\n", "is the name of line 1 already"},
		{"sites: [{host: a.test, group: hsot}]\n", `did you mean "host"?`},
		{"sites: [{host: a.test, priority: 8}]\n", `"8" is more than 7`},
		{"sites: [{host: a.test, pool: twiter}]\npools: {twitter: {env: T}}\n", `sites[0].pool: "twiter" is not a pool; did you mean "twitter"?`},
		{"sites: [{host: \"*\", pool: a}]\npools: {a: {env: T}}\n", "would send its secrets to every host"},
		{"sites: [{host: a.test, insecure: true}]\n", "about the tokens of a pool"},
	} {
		refuse(t, one.text, one.want)
	}
	load(t, "sites:\n  - host: a.test:8443\n  - host: a.test\n  - host: \"*.a.test\"\n  - host: [\"*.test\", x.a.b]\n  - host: \"*\"\n")
}

func TestLimitsSayWhatTheyCount(t *testing.T) {
	for text, want := range map[string]string{
		"{requests: 900, per: 15m}":                                          "900 requests per 15m (rolling)",
		"{requests: 900, per: day}":                                          "900 requests per day (quota, UTC)",
		"{requests: 9, per: month, timezone: Europe/Berlin}":                 "9 requests per month (quota, Europe/Berlin)",
		"{bytes: 1MB, per: 1m}":                                              "1MB per 1m (fixed)",
		"{bytes: 1MB, per: 1m, stall: 30s, by: client}":                      "1MB per 1m by client, stall 30s (fixed)",
		"{requests: 2, per: 1s, burst: 4, as: bucket}":                       "2 requests per 1s, 4 at once (bucket)",
		"{cost: 100, per: 1h, each: 5, method: GET, path: /a/*/b}":           "100 cost per 1h for GET /a/*/b, each request counts 5 (rolling)",
		"{concurrency: 4}":                                                   "4 in flight",
		"{as: adaptive, min: 0.2/s, max: 20/s}":                              "adaptive between 0.2/s and 20/s",
		"{requests: 10, per: 1m, as: first-use, by: route, path: \"/x/**\"}": "10 requests per 1m by route for /x/** (first-use)",
	} {
		p := load(t, "sites: [{host: a.test, limits: ["+text+"]}]")
		if got := p.Sites[0].Limits[0].String(); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"{}":                                                    "limits nothing",
		"{per: 1m}":                                             "limits nothing",
		"{requests: 1}":                                         "needs per",
		"{requests: 1, bytes: 1MB, per: 1m}":                    "limits requests and bytes",
		"{requests: 1, per: 15}":                                "needs a unit",
		"{requests: 1, per: dya}":                               `did you mean "day"?`,
		"{requests: 1, per: day, as: rolling}":                  "as: quota goes with",
		"{requests: 1, per: 1d, as: quota}":                     "as: quota goes with",
		"{requests: 1, per: 1m, timezone: UTC}":                 "has a timezone",
		"{requests: 1, per: day, timezone: Local}":              "is not a time zone",
		"{requests: 1, per: day, timezone: Mars/Olympus}":       "is not a time zone",
		"{requests: 1, per: 1m, burst: 2}":                      "has a burst, which only as: bucket",
		"{requests: 1, per: 1m, each: 2}":                       "none could pass",
		"{requests: 1, per: 1m, stall: 2s}":                     "is for bytes",
		"{concurrency: 1, per: 1m}":                             "means nothing",
		"{concurrency: 1, as: fixed}":                           "as: concurrency",
		"{requests: 1, per: 1m, as: concurrency}":               "as: concurrency",
		"{as: adaptive, min: 2/s}":                              "needs min and max",
		"{as: adaptive, min: 1/1000d, max: 2/s}":                "less than 1e-06/s",
		"{as: adaptive, min: 1/s, max: 2000000/1ms}":            "more than 1e+09/s",
		"{requests: 1, per: 1m, path: /a%2}":                    "two hexadecimal digits",
		"{requests: 1, per: 1m, path: \"/a\\t\"}":               "a control character",
		"{as: adaptive, min: 3/s, max: 2/s}":                    "which is more than its max",
		"{as: adaptive, min: 1/s, max: 2/s, requests: 1}":       "takes min and max and no amount",
		"{requests: 1, per: 1m, min: 1/s}":                      "for as: adaptive",
		"{requests: 1, per: 1m, by: token}":                     "where there is no pool",
		"{requests: 1, per: 1m, by: tokne}":                     `did you mean "token"?`,
		"{requests: 1, per: 1m, path: a}":                       "begin with a slash",
		"{requests: 1, per: 1m, path: \"/a*\"}":                 "not a whole segment",
		"{requests: 1, per: 1m, path: \"/a?b\"}":                "paths alone",
		"{requests: 1, per: 1m, method: get}":                   `did you mean "GET"?`,
		"{requests: 1, per: 1m}, {requests: 2, per: 1m}":        "limits the same as line 1",
		"{requests: 1, per: 1m, as: bucket, burst: 2, each: 3}": "none could pass",
	} {
		refuse(t, "sites: [{host: a.test, limits: ["+text+"]}]", "abide.yaml:1: sites[0].limits", want)
	}
}

func TestPoolsHaveOneSourceAndAPlaceForTheToken(t *testing.T) {
	p := load(t, `pools:
  a: {file: x.csv, column: c, label: l, reserve: 1.5%}
  b: {env: TOKENS, put: "query: api_key={token}", reserve: 50, exhausted: refuse, anonymous: true}
  c: {dir: /run/secrets/c, put: "basic: {token}"}
  d: {tokens: [{label: one, secret: "s$$"}], put: "x-api-key: k={token};", oauth2: {token_url: https://a.test/t, scopes: read}}
`)
	if p.Pools[0].Put.String() != "Authorization: Bearer {token}" || p.Pools[1].Put.String() != "query: api_key={token}" ||
		p.Pools[2].Put.String() != "basic: {token}" || p.Pools[3].Put.String() != "X-Api-Key: k={token};" || p.Pools[3].Tokens[0].Secret.Reveal() != "s$" ||
		p.Pools[0].Reserve.Percent != 1.5 || p.Pools[1].Reserve.Units != 50 {
		t.Errorf("%+v", p.Pools)
	}
	for text, want := range map[string]string{
		"{}":                                   "has no tokens",
		"{env: A, dir: /x}":                    "from env and dir",
		"{env: A, column: c}":                  "go with file",
		"{file: x, label: l}":                  "no column",
		"{env: \"A B\"}":                       "not the name of a variable",
		"{tokens: []}":                         "is empty",
		"{tokens: [{label: a}]}":               "needs secret",
		"{tokens: [{label: a, secret: \"\"}]}": "is empty",
		"{tokens: [{label: a, secret: x}, {label: a, secret: y}]}": "tokens[1].label: is the name of line 1 already",
		"{env: A, put: \"X: y\"}":                                  "is not a place for {token}",
		"{env: A, put: \"{token}: {token}\"}":                      "is not a place for {token}",
		"{env: A, put: \"a b: {token}\"}":                          "name of a header",
		"{env: A, put: \"host: {token}\"}":                         "not a header for credentials",
		"{env: A, put: \"query: {token}\"}":                        "query parameter",
		"{env: A, reserve: 100%}":                                  "less than 100%",
		"{env: A, exhausted: wiat}":                                `did you mean "wait"?`,
		"{env: A, oauth2: {scopes: [a]}}":                          "needs token_url",
		"{env: A, oauth2: {token_url: http://a.test}}":             "is not https",
	} {
		refuse(t, "pools: {p: "+text+"}", "pools.p", want)
	}
}

func TestAListenerElsewhereServesOnlyWhomItMay(t *testing.T) {
	p := load(t, "listen: 0.0.0.0:3128\n")
	if from := p.Access.From; !from.Private || !from.Loopback || from.Any {
		t.Errorf("%+v", from)
	}
	for address, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "192.168.0.1": true, "fd00::1": true, "fe80::1%eth0": true, "::ffff:10.0.0.1": true,
		"8.8.8.8": false, "100.64.0.1": false, "2001:4860::1": false, "::ffff:8.8.8.8": false,
	} {
		if got := p.Access.From.Contains(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s may connect: %v", address, got)
		}
	}
	if p.Access.From.Contains(netip.Addr{}) {
		t.Error("no address at all may connect")
	}
	for _, listen := range []string{"0.0.0.0:3128", ":3128", "[::]:3128", "192.168.1.1:3128"} {
		refuse(t, fmt.Sprintf("listen: %q\naccess: {from: any}\n", listen), "abide.yaml:2: access.from: lets everybody", "access.clients must be set")
		refuse(t, fmt.Sprintf("listen: %q\naccess: {from: [private, 8.0.0.0/8]}\n", listen), "lets 8.0.0.0/8, which is public")
		refuse(t, fmt.Sprintf("listen: %q\naccess: {from: 0.0.0.0/0}\n", listen), "which is public")
		load(t, fmt.Sprintf("listen: %q\naccess: {from: [any], clients: [{name: a, secret: b}]}\n", listen))
		load(t, fmt.Sprintf("listen: %q\naccess: {from: [10.1.0.0/16, 100.64.0.0/10, \"fd00::/8\"]}\n", listen))
		refuse(t, fmt.Sprintf("listen: 127.0.0.1:1\nadmin: %q\n", listen), "abide.yaml:2: admin: ", "admin.token must be set")
		load(t, fmt.Sprintf("listen: 127.0.0.1:1\nadmin: {listen: %q, token: x}\n", listen))
	}
	if p := load(t, "access: {from: any}"); len(p.Warnings()) != 1 {
		t.Error(p.Warnings())
	}
}

func TestWhatIsDoubtfulIsWarnedOf(t *testing.T) {
	for text, want := range map[string]string{
		"listen: :3128": "access.clients is empty",
		`admin: {listen: ":9128", token: fifteen-letters}`: "admin.token has fewer than 16",

		"egress: {allow: [0.0.0.0/0]}":                                                 "every internal address",
		"egress: {allow: [169.254.169.254]}":                                           "cloud metadata",
		"{listen: \":3128\", egress: {ports: any}}":                                    "mail servers",
		"egress: {proxy: \"http://u:p@h.test:1\"}":                                     "in the clear",
		"log: {level: debug}":                                                          "several lines",
		"sites: [{host: \"a.test:8443\"}]":                                             "by plain http alone",
		"{intercept: none, sites: [{host: a.test, limits: [{requests: 1, per: 1m}]}]}": "sites[0]: a.test has limits, but requests cannot be seen in a tunnel: with intercept: none that holds",
		"{intercept: [\"*.a.test\"], sites: [{host: [b.a.test, c.test], limits: [{cost: 1, per: 1m}]}]}":     "sites[0]: c.test has limits, but requests cannot be seen in a tunnel: that holds",
		"{intercept: none, sites: [{host: a.test, limits: [{concurrency: 1}]}]}":                             "sites[0]: a.test has limits, but",
		"{intercept: [b.test], sites: [{host: a.test, limits: [{concurrency: 1, by: client}], robots: on}]}": "sites[0]: a.test has limits and robots, but",
		"{intercept: none, sites: [{host: a.test, backends: [https://b.test], coalesce: on, robots: on}]}":   "a.test has backends, coalesce and robots, but",
		"sites: [{host: a.test}]": "sites[0] (a.test): no effect on https that passes unread, as at 127.0.0.1:3128 with intercept: auto: nothing is learned or held back there; start the crawler with \"abide run\", set its environment with eval \"$(abide env)\", give rules limits, or write intercept: all",
		"sites: [{host: a.test, learn: true}, {host: b.test, learn: false}, {host: c.test, name: c, limits: [{bytes: 1MB, per: 1m}], dialect: {scope: site}}]": "sites[0] (a.test), sites[2] (c): no effect",
		"{intercept: none, sites: [{host: a.test, priority: 1, learn: false}]}":                                                                                "with intercept: none: nothing is learned or held back there; leave out intercept: none, give",
		"{intercept: [b.test], sites: [{host: a.test}]}":                                                                                                       "with intercept: b.test",
		"{listen_open: off, sites: [{host: a.test}]}":                                                                                                          "leave out listen_open: off",
		"defaults: {limits: [{requests: 1, per: 1m}]}":                                                                                                         "defaults.limits have no effect on https that passes unread",
		"{intercept: none, defaults: {limits: [{requests: 1, per: 1m}]}}":                                                                                      "leave out intercept: none, or write",
		"sites: [{host: \"*.pool\", backends: [https://b.test], limits: [{concurrency: 1}]}]":                                                                  "sites[0]: each of its sites has the limits for itself at every backend",
		"sites: [{host: [a.pool, b.pool], group: domain, backends: [https://b.test], limits: [{concurrency: 1}]}]":                                             "with group: rule they have them together",
	} {
		if got := strings.Join(load(t, text).Warnings(), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %q has no %q", text, got, want)
		}
	}
	for _, text := range []string{
		"",
		"sites: [{host: a.test, limits: [{requests: 1, per: 1m}]}]",
		"{intercept: none, sites: [{host: a.test, limits: [{bytes: 1MB, per: 1m}]}]}",
		"intercept: all",
		`admin: {listen: ":9128", token: sixteen-letters-}`,
		`admin: {listen: "127.0.0.1:9128", token: short}`,
		"{intercept: all, defaults: {limits: [{requests: 1, per: 1m}]}, sites: [{host: a.test}, {host: b.test, learn: true}]}",
		"{access: {clients: [{name: a, secret: b, intercept: all}]}, sites: [{host: a.test}]}",
		"defaults: {limits: [{concurrency: 32}], learn: true}",
		"sites: [{host: a.test, learn: false}, {host: b.test, limits: [{bytes: 1MB, per: 1m}]}, {host: \"c.test:80\"}]",
		"{intercept: [a.test], sites: [{host: a.test}]}",
		"sites: [{host: \"*.pool\", group: rule, backends: [https://b.test], limits: [{concurrency: 1}]}, {host: a.test, backends: [https://b.test], limits: [{concurrency: 1}]}]",
		"{intercept: [\"*.a.test\", b.test], sites: [{host: [\"*.b.a.test\", \"b.test:443\"], limits: [{requests: 1, per: 1m}]}]}",
	} {
		if got := load(t, text, "HOME", "/home/somebody").Warnings(); len(got) != 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
}
