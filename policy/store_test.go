package policy

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAStoreIsTakenApart(t *testing.T) {
	for text, want := range map[string]string{
		"local":                                        "local",
		"redis://h.test":                               "Redis at h.test:6379",
		"redis://H.TEST.:1/3":                          "Redis at h.test:1, database 3",
		"rediss://:pw@h.test?db=2":                     "Redis at h.test:6379 by TLS, database 2",
		"redis://u:pw@[::1]:7/?prefix=crawl:":          "Redis at [::1]:7 as u, keys begin with crawl:",
		"redis+sentinel://u:pw@h1.test,h2.test:7/main": "Redis main of the sentinels h1.test:26379, h2.test:7 as u",
		"rediss+sentinel://h1.test:1/my%2Dmaster/?db=4&prefix=a.b": "Redis my-master of the sentinels h1.test:1 by TLS, database 4, keys begin with a.b",
		"redis+cluster://h1.test:1,h2.test:2,h3.test:3?prefix=x:":  "Redis cluster of h1.test:1, h2.test:2, h3.test:3, keys begin with x:",
		"rediss+cluster://u:pw@h1.test?db=0":                       "Redis cluster of h1.test:6379 by TLS as u",
		"redis://u:p%40s%3As@h.test":                               "Redis at h.test:6379 as u",
		"redis+unix://u:pw@/run/redis.sock?db=1":                   "Redis at /run/redis.sock as u, database 1",
		"redis://127.0.0.1:6379":                                   "Redis at 127.0.0.1:6379",
	} {
		p := load(t, "data: none\nstore: \""+text+"\"\n")
		if got := p.Store.String(); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
		if p.Store.Shared() != (text != "local") {
			t.Errorf("%s: %+v", text, p.Store)
		}
		if strings.Contains(text, "pw") && p.Store.Password.Reveal() != "pw" || strings.Contains(text, "p%40") && p.Store.Password.Reveal() != "p@s:s" {
			t.Errorf("%s has another password", text)
		}
	}
	p := load(t, "store: redis+sentinel://u:${P}@h1.test,h2.test/m\n", "P", "a,b@/?:#%41")
	if p.Store.Password.Reveal() != "a,b@/?:#%41" || !slices.Equal(p.Store.Hosts, []string{"h1.test:26379", "h2.test:26379"}) || p.Store.User != "u" || p.Store.Form() != "sentinel" {
		t.Errorf("%+v", p.Store)
	}
	p = load(t, "store: \"rediss+sentinel://h.test/m?prefix=x:&db=3&ca=/etc/ca.pem&sentinel_user=s&sentinel_password=${P}\"\n", "P", "a&b")
	want := Store{
		Kind: "rediss+sentinel", Hosts: []string{"h.test:26379"}, Master: "m", DB: 3, Prefix: "x:", TLS: true, CA: "/etc/ca.pem",
		SentinelUser: "s", SentinelPassword: NewSecret("a&b"),
	}
	if !reflect.DeepEqual(p.Store, want) || p.Store.SentinelPassword.Reveal() != "a&b" {
		t.Errorf("%+v", p.Store)
	}
	if want.SentinelPassword = NewSecret("a&c"); reflect.DeepEqual(p.Store, want) {
		t.Error("stores with different passwords are not told apart")
	}
	if other := load(t, "store: \"redis://a.test?prefix=x:\"").Store; reflect.DeepEqual(other, p.Store) || reflect.DeepEqual(other, load(t, "store: redis://a.test").Store) {
		t.Error("stores are not told apart")
	}
	if p := load(t, "store: ${S}\n", "S", "redis://:x@h.test"); p.Store.Password.Reveal() != "x" {
		t.Errorf("%+v", p.Store)
	}
	const canary = "canary-4711"
	for text, want := range map[string]string{
		"":                                   "is neither local nor a URL",
		"lokal":                              "is neither local nor a URL such as redis://",
		"h.test:6379":                        "is neither local nor a URL",
		"http://:canary-4711@h.test":         "none of redis, rediss",
		"redis:///1":                         "has a host that is empty",
		"redis://:canary-4711@":              "has a host that is empty",
		"redis://:canary-4711@h:x":           "has a host that has a port that is not a number",
		"redis://a:6379,b:6379":              "names several hosts",
		"redis+cluster://a:1,a:1":            "names a host twice",
		"redis+sentinel://a:1,b:1":           "needs the name of the master",
		"redis+cluster://a:1/2":              "a cluster has no databases",
		"redis+cluster://a:1?db=2":           "a cluster has the database 0 alone",
		"redis://a/canary-4711":              "is no number, such as ?db=2",
		"redis://a?db=-1":                    "is no number",
		"redis://a/1?db=2":                   "has a database in its path and as db",
		"redis://a?db=1&db=2":                "has an option twice",
		"redis://a?password=canary-4711":     "none of db, prefix, ca",
		"redis://a?ca=x":                     "has ca, which is for TLS; write rediss://",
		"redis://a?sentinel_user=x":          "has an option for sentinels",
		"redis+unix://a/x":                   "has a host before its socket",
		"redis+unix:///":                     "names no socket",
		"redis://a?prefix=":                  "has a prefix",
		"redis://a?prefix={x}":               "has a prefix with a character",
		"redis://a?prefix=%zz":               "options that cannot be read",
		"redis://canary-4711@a":              "has a user without a password",
		"redis://:canary-4711%zz@a":          "has a % in its user or password",
		"redis://:canary-4711#x@a":           "in a password it is %23",
		"redis://u:canary-4711@a b":          "has a host that",
		"redis+sentinel://a:1/canary-4711/x": "has a name of the master that is none",
	} {
		faults := refuse(t, fmt.Sprintf("store: %q\n", text), "abide.yaml:1: store: ", want)
		if strings.Contains(faults.Error(), canary) {
			t.Errorf("the fault tells what may be a secret: %v", faults)
		}
	}
}

func TestWhatSeveralShareIsSaid(t *testing.T) {
	const rules = `pools: {p: {env: A}}
sites:
  - host: a.test
    limits:
      - {requests: 900, per: 15m}
      - {requests: 9, per: 1m, as: first-use}
      - {requests: 120, per: 1m, as: bucket, burst: 20}
      - {bytes: 1MB, per: 1m, as: bucket, burst: 100kB}
      - {requests: 60, per: 1h, as: bucket, burst: 1}
      - {requests: 5, per: 1s, as: paced}
      - {concurrency: 8}
  - {host: b.test, outage: open, limits: [{bytes: 1MB, per: 1m}]}
  - {host: c.test, pool: p, limits: [{requests: 9, per: 15m, by: token}, {requests: 50, per: day}, {requests: 5, per: 1m}]}
  - {host: d.test, outage: strict, limits: [{concurrency: 8}]}
`
	var b bytes.Buffer
	load(t, rules+"store: \"rediss://u:pw@r.test/1?prefix=x:\"\ndata: /var/lib/abide\nstrict_state: on\n").Describe(&b)
	for _, want := range []string{
		"store           Redis at r.test:6379 by TLS as u, database 1, keys begin with x:\n                limits that say shared hold for all that have this store together\n",
		"                the bandwidth of this one is in /var/lib/abide/abide.db, which abide does not serve without\n",
		"                900 requests per 15m (rolling), shared\n",
		"                9 requests per 1m (first-use), shared, kept as rolling\n",
		"120 requests per 1m, 20 at once (bucket), shared, kept as 10 per 5s (fixed)\n",
		"1MB per 1m, 100kB at once (bucket), shared, kept as 50kB per 3s (fixed)\n",
		"60 requests per 1h, 1 at once (bucket), each abide has it for itself\n",
		"5 requests per 1s (paced), each abide has it for itself\n",
		"                8 in flight, each abide has it for itself\n",
		"while the store is away, each abide has its part of what is shared (share)\nsites[1]",
		"1MB per 1m (fixed), shared\n",
		"while the store is away, each abide has all of what is shared for itself (open)\nsites[2]",
		"while the store is away, of what is shared by token or for a day or longer only what was leased is spent (strict)\n                while the store is away, each abide has its part of what else is shared (share)\n",
		"8 in flight, each abide has it for itself\npool p ", "other sites     32 in flight, each abide has it for itself\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for text, want := range map[string]string{
		"":                                       "store           local, in memory: a restart forgets what was spent\n",
		"data: /x\n":                             "store           local, in /x/abide.db\n                what was spent and learned outlives a restart; each abide on this machine with this directory shares it\n",
		"data: /x\nstrict_state: true\n":         "store           local, in /x/abide.db, which abide does not serve without\n",
		"data: none\nstore: redis://127.0.0.1\n": "store           Redis at 127.0.0.1:6379\n",
		"shard: {index: 0, of: 3, by: host}\n":   "shard           0 of 3, parts of the hosts by their hash, from 0 on\n",
		"shard: {index: 2, of: 3}\n":             "shard           2 of 3, parts of the URLs by their hash, from 0 on\n",
	} {
		b.Reset()
		load(t, text).Describe(&b)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", text, want, b.String())
		}
	}
	b.Reset()
	p := load(t, rules+"store: redis://r.test\n")
	p.Explain(&b, Target{Scheme: "https", Host: "b.test", Port: 443}, "", false)
	p.Explain(&b, Target{Scheme: "http", Host: "none.test", Port: 80}, "", false)
	for _, want := range []string{"1MB per 1m (fixed), shared\n", "(open)\n", "32 in flight, each abide has it for itself\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestAnOutageIsWhatTheRuleSaysAndTokensAreCareful(t *testing.T) {
	p := load(t, `pools: {p: {env: A}}
sites:
  - {host: a.test, pool: p, limits: [{requests: 1, per: 1m}, {requests: 1, per: 1m, by: token}]}
  - {host: b.test, pool: p, outage: open, limits: [{requests: 1, per: 1m}, {requests: 1, per: 1m, by: token}]}
`)
	for i, want := range []string{"share strict", "open strict"} {
		s := &p.Sites[i]
		if got := s.OutageOf(&s.Limits[0]) + " " + s.OutageOf(&s.Limits[1]); got != want {
			t.Errorf("%s: %s, want %s", s.Title(), got, want)
		}
	}
	p = load(t, `sites:
  - {host: a.test, limits: [{requests: 1, per: day}, {requests: 1, per: 1d}]}
  - {host: b.test, outage: share, limits: [{requests: 1, per: week}, {requests: 1, per: 1m}]}
defaults: {limits: [{requests: 1, per: month}]}
`)
	for i, want := range []string{"strict strict", "share share"} {
		s := &p.Sites[i]
		if got := s.OutageOf(&s.Limits[0]) + " " + s.OutageOf(&s.Limits[1]); got != want {
			t.Errorf("%s: %s, want %s", s.Title(), got, want)
		}
	}
	var none *Site
	if got := none.OutageOf(&p.Defaults.Limits[0]); got != "strict" {
		t.Errorf("a month of sites without a rule: %s", got)
	}
	p = load(t, "sites: [{host: a.test, limits: [{requests: 1, per: 1m}]}]")
	if got := none.OutageOf(&p.Sites[0].Limits[0]); got != "share" {
		t.Error(got)
	}
}

func TestWhatAStoreHasPeopleWarnedOf(t *testing.T) {
	for text, want := range map[string]string{
		"sites: [{host: a.test, outage: share}]":                "sites[0]: outage says what holds while a shared store is away, but store is local",
		"sites: [{host: b.test}, {host: a.test, outage: open}]": "sites[1]: outage",
		"store: redis://u:canary@r.test":                        "store sends its password in the clear to r.test:6379, rediss:// would not",
		"store: redis+cluster://u:canary@r.test:1,127.0.0.1:1":  "rediss+cluster:// would not",
		"store: redis+sentinel://u:canary@10.0.0.1:1/m":         "rediss+sentinel:// would not",
	} {
		got := strings.Join(load(t, text, "HOME", "/home/somebody").Warnings(), "\n")
		if !strings.Contains(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%s: %q has no %q", text, got, want)
		}
	}
	for _, text := range []string{
		"store: redis://r.test\nsites: [{host: a.test, outage: open, limits: [{requests: 1, per: 1s}]}]", "store: rediss://u:pw@r.test", "store: redis://u:pw@localhost", "store: redis+cluster://:pw@127.0.0.1:1,[::1]:2",
	} {
		if got := load(t, text, "HOME", "/home/somebody").Warnings(); len(got) != 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// A fleet may have one file, and each of its members a variable.
func TestAShardMayBeSetInSeveralPlaces(t *testing.T) {
	p := load(t, "shard: {of: 4, by: host}\n", "ABIDE_SHARD_INDEX", "3")
	if p.Shard != (Shard{3, 4, "host"}) {
		t.Errorf("%+v", p.Shard)
	}
	_, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte("shard: {of: 4}\n"), Lookup: environ("ABIDE_SHARD_INDEX", "4")})
	if err == nil || !strings.Contains(err.Error(), "ABIDE_SHARD_INDEX: shard.index: 4 is not below shard.of, which is 4") {
		t.Error(err)
	}
}
