package policy

import (
	"regexp"
	"strings"
)

// inexpressible is a kind of fault that the schema does not have: an editor accepts the
// example, and abide refuses it.
type inexpressible struct {
	fault   *regexp.Regexp // of the fault, with "" for what it quotes
	example string
}

// inexpressibleKinds are all kinds of faults that the schema does not have.
var inexpressibleKinds = func() (all []inexpressible) {
	for _, one := range inexpressibleFaults {
		all = append(all, inexpressible{regexp.MustCompile(one.fault), one.example})
	}
	return all
}()

var inexpressibleFaults = []struct{ fault, example string }{
	// Settings that contradict each other.
	{`is more than (bounds|queue|retry|timeouts)\.`, "retry: {base: 2m, max: 1m}\n"},
	{`^\d+ is not below shard\.of`, "shard: {index: 100, of: 100}\n"},
	{`^needs shard\.`, "shard: {of: 2}\n"},
	{`^is about what is kept in data`, "data: none\nstrict_state: true\n"},
	{`^is for a listener that is off`, "admin: {listen: off, token: x}\n"},
	{`is the address of (listen|admin\.listen) already`, `listen_open: 127.0.0.1:3128`},
	{`^is this proxy itself`, `egress: {proxy: 'http://127.0.0.1:3129'}`},
	{`so admin\.token must be set$`, "listen: 127.0.0.1:1\nadmin: \":3128\"\n"},
	{`so access\.clients must be set$`, "listen: \":3128\"\naccess: {from: any}\n"},
	{`which nobody sees inside of https`, `{intercept: none, sites: [{host: a.test, pool: p}], pools: {p: {env: T}}}`},
	{`but none goes over plain http`, "sites:\n  - host: \"a.test:80\"\n    pool: p\npools: {p: {env: T}}\n"},
	{`^would send its secrets to`, "sites: [{host: \"*\", pool: a}]\npools: {a: {env: T}}\n"},
	{`^goes with no backends`, "sites:\n  - host: a.test\n    backends: [https://b.test]\n    pool: p\npools: {p: {env: T}}\n"},
	{`^is about the tokens of a pool, and there is none`, "sites: [{host: a.test, insecure: true}]\n"},
	{`is one of the hosts of this rule \(`, `sites: [{host: "*", backends: [https://b.test]}]`},
	{`never comes to this rule`, "sites:\n  - host: \"*\"\n  - host: a.test\n"},
	{`^says how to read limits, but none are learned here`, "sites:\n  - host: a.test\n    learn: off\n    dialect: {scope: site}\n"},
	// Keys of a limit or a pool that do not go together.
	{`^limits nothing; write`, `sites: [{host: a.test, limits: [{}]}]`},
	{`^limits \w+ and \w+; write one limit for each`, `sites: [{host: a.test, limits: [{requests: 1, bytes: 1MB, per: 1m}]}]`},
	{`^needs per, such as`, `defaults: {limits: [{bytes: 1MB}]}`},
	{`^needs min and max`, `sites: [{host: a.test, limits: [{as: adaptive, min: 2/s}]}]`},
	{`^stands behind the amount already`, `sites: [{host: a.test, limits: [{requests: 5/s, per: 1m}]}]`},
	{`^is adaptive, `, `defaults: {limits: [{bytes: 1MB, as: adaptive, min: 1/s, max: 2/s}]}`},
	{`^has (per|stall), which means nothing for what is in flight`, `defaults: {limits: [{concurrency: 1, stall: 9s}]}`},
	{`^has stall, which is for bytes`, `defaults: {limits: [{cost: 1, per: 1m, stall: 9s}]}`},
	{`^has each, but bytes are counted`, `defaults: {limits: [{bytes: 1MB, per: 1m, each: 2}]}`},
	{`^has min or max, which are for`, `defaults: {limits: [{bytes: 1MB, per: 1m, min: 1/s}]}`},
	{`^has a burst, which only`, `defaults: {limits: [{bytes: 1MB, per: 1m, burst: 64KiB}]}`},
	{`^"[0-9]+[A-Za-z]+" is not a whole number`, `defaults: {limits: [{requests: 1, per: 1m, as: bucket, burst: 64KiB}]}`},
	{`^has a timezone, which only`, `sites: [{host: a.test, limits: [{requests: 1, per: 1m, timezone: UTC}]}]`},
	{`^as: (concurrency|quota) goes with`, `defaults: {limits: [{bytes: 1MB, per: 1m, as: concurrency}]}`},
	{`^paces bytes`, `defaults: {limits: [{bytes: 1MB, per: 1m, as: paced}]}`},
	{`^has a m(in|ax) of`, `sites: [{host: a.test, limits: [{as: adaptive, min: 3/s, max: 2/s}]}]`},
	{`for each request but never has more than`, `sites: [{host: a.test, limits: [{requests: 1, per: 1m, each: 2}]}]`},
	{`^counts by token where there is no pool`, "defaults: {limits: [{concurrency: 5, by: token}]}\n"},
	{`^needs by: token`, "pools:\n  p:\n    env: T\n    limits: [{concurrency: 1}]\n"},
	{`^has a column, a label or an account`, `pools: {p: {env: A, column: c}}`},
	{`^has a label but no column`, `pools: {p: {file: x, label: l}}`},
	{`^says nothing; write headers`, `sites: [{host: a.test, dialect: {paths: /a/}}]`},
	{`^a list needs windows`, "sites:\n  - host: a.test\n    dialect: {headers: [{name: x-left, is: limit, form: list}]}\n"},
	// What is written twice.
	{`is listed twice$`, "egress: {ports: [80, 443, 80]}\n"},
	{`is neither the name nor a host of a rule`, "access: {clients: [{name: a, secret: x, sites: [b]}]}\n"},
	{`as the limits of clients are called`, "sites: [{host: a.test, name: client news}]\n"},
	{`is for all requests of the client together`, "access: {clients: [{name: a, secret: x, limits: [{concurrency: 2, by: client}]}]}\n"},
	{`is the name of (line \d+|a backend) already`, "sites: [{host: a.test, name: x}, {host: b.test, name: x}]\n"},
	{`is covered by .* already`, "intercept: [\"*.a.test\", b.a.test]\n"},
	{`^limits the same as line`, "defaults: {limits: [{concurrency: 5}, {concurrency: 6}]}\n"},
	// Words that stand alone.
	{`^any stands alone`, "egress: {ports: [80, any]}\n"},
	{`^any is everybody`, "access: {from: [any, private]}\n"},
	{`^all stands alone`, "intercept: [a.test, all]\n"},
	{`^"" is none of auto, all, none, nor a list of hosts`, "intercept: atuo\n"},
	// Names that refer to something else.
	{`^"" is not a pool`, "sites:\n  - host: a.test\n    pool: q\npools: {p: {env: T}}\n"},
	{`^refers to the variable \w+(, which is|: )`, "log: {}\nadmin:\n  token: \"${UNSET}\"\n"},
	{`^"" needs a home directory`, `data: ~/x`},
	{`^"" names another user\'s home`, `data: ~other/x`},
	{`^"" is not a time zone`, `sites: [{host: a.test, limits: [{requests: 1, per: day, timezone: Local}]}]`},
	// Headers of rules, whose names are written in any case.
	{`^is not for a rule to write`, "sites: [{host: a.test, headers: {set: {host: x}}}]\n"},
	{`^is a credential, which headers show`, "sites: [{host: a.test, headers: {set: {cookie: x}}}]\n"},
	{`^has a control character$`, "sites: [{host: a.test, headers: {set: {accept: \"a\\tb\"}}}]\n"},
	{`^is longer than 4096 bytes$`, "sites: [{host: a.test, headers: {set: {accept: " + strings.Repeat("x", 5000) + "}}}]\n"},
	{`^is written twice$`, "sites: [{host: a.test, headers: {set: {accept: a}, default: {accept: b}}}]\n"},
	{`^puts its tokens into \S+, which headers writes`, "pools: {p: {env: P, put: \"X-Id: {token}\"}}\nsites: [{host: a.test, pool: p, headers: {set: {x-id: y}}}]\n"},
	// Secrets and URLs, whose parts no pattern has.
	{`^has a \$ that the name`, "log: {}\nadmin:\n  token: \"canary-4711$\"\n"},
	{`^is neither http:// nor https://`, `egress: {proxy: "${B}"}`},
	{`^is neither local nor a URL`, `store: "${B}"`},
	{`^needs a valid host and a port`, `egress: {proxy: "http://u:${B}@h"}`},
	{`^has a host that`, "store: \"redis:///1\"\n"},
	{`^has a host before its socket`, "store: \"redis+unix://a/x\"\n"},
	{`^names (no socket|a host twice|several hosts)`, "store: \"redis+unix:///\"\n"},
	{`^has (a database|db;|ca,|options|an option|a prefix|a name of the master|a path; a cluster|a user without|a #|a % in)`, `store: "redis://a?db=-1"`},
	{`^needs the name of the master`, "store: \"redis+sentinel://a:1,b:1\"\n"},
	// Addresses, hosts and paths beyond a pattern.
	{`^"" is not an (IP )?address and a port`, "listen: example.com:3128\n"},
	{`^"" has a \*; write`, "listen: \"*:3128\"\n"},
	{`^"" is written `, "listen: \"[127.0.0.1]:1\"\n"},
	{`^"" has bits outside`, "access: {from: [10.0.0.1/8]}\n"},
	{`^"" is an IPv4 network written`, "egress: {allow: [\"::ffff:10.0.0.0/104\"]}\n"},
	{`^host "" `, "egress: {resolve: {a.test: 127.0.0.1:1}}\n"},
	{`^has a control character, which no path`, `sites: [{host: a.test, limits: [{requests: 1, per: 1m, path: "/a\t"}]}]`},
	{`^"" has a % that two`, `sites: [{host: a.test, limits: [{requests: 1, per: 1m, path: /a%2}]}]`},
	{`^"" does not begin with a slash and end`, `sites: [{host: a.test, dialect: {apart: /projects}}]`},
	{`^"": (a \* stands|each segment)`, "sites:\n  - host: a.test\n    dialect: {apart: [/a/*, /a/**/*]}\n"},
	{`^"" has to be in lower case`, "sites:\n  - host: a.test\n    dialect: {headers: [{name: http-left, is: limit}]}\n"},
	{`^is about backends, and there are none`, `sites: [{host: a.test, sticky: true}]`},
	// The place of a token.
	{`^is not a place for`, `pools: {p: {env: A, put: "{token}: {token}"}}`},
	{`^is not a query parameter`, `pools: {p: {env: A, put: "query: {token}"}}`},
	{`^does not begin with the name of a header`, `pools: {p: {env: A, put: "a b: {token}"}}`},
	{`^puts the token into`, `pools: {p: {env: A, put: "host: {token}"}}`},
	// Amounts whose size a text hides.
	{`^"" is (less|more) than`, "breaker: {pause: 61m}\n"},
	{`^"" is no (time|bytes) at all`, `timeouts: {idle: 0s}`},
	{`^"" is too large`, `timeouts: {idle: 99999w}`},
	{`^"" lets nothing pass`, `sites: [{host: a.test, limits: [{as: adaptive, min: 0/s, max: 1000/s}]}]`},
	{`^"" is not a rate, such as .*: "" is no time at all`, `sites: [{host: a.test, limits: [{as: adaptive, min: 2/0s, max: 1000/s}]}]`},
	{`^"" is not a part of less than`, `pools: {p: {env: A, reserve: 100%}}`},
	{`^"" has (its units out of order|a fraction that)`, `timeouts: {idle: 1h1h}`},
	{`^"" needs a unit, such as \w+B or`, `defaults: {limits: [{bytes: 1MB, per: 1m, as: bucket, burst: 2}]}`},
	// Numbers and words of YAML in another notation, which an editor reads as the usual one.
	{`^"(\+?[0-9][0-9_]*|0[xo][0-9a-f]+|[0-9]+\.0+|[0-9]+e[0-9]+)" is not a whole number`, `bounds: {idle: +5}`},
	{`^"(True|TRUE|False|FALSE)" is neither true nor false`, `log: {access: True}`},
}
