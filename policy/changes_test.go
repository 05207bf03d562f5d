package policy

import (
	"strings"
	"testing"
)

const changesBefore = `
admin: {listen: 127.0.0.1:9128, token: canary-admin}
queue: {wait: 30m}
egress: {proxy: "http://user:canary-hop@proxy.test:3128"}
access: {clients: [{name: news, secret: canary-news}, {name: shop, secret: canary-shop}]}
pools:
  x: {env: X_TOKENS, put: "Authorization: Bearer {token}", limits: [{concurrency: 4, by: token}]}
  y: {tokens: [{label: a, secret: canary-a}], put: "Authorization: Bearer {token}"}
sites:
  - {host: api.example.com, pool: x, limits: [{requests: 5, per: 1m}]}
  - {host: "*.example.org", limits: [{requests: 5, per: 1m}]}
  - {host: c.test, robots: true}
`

func TestChangesAreToldInShortPhrases(t *testing.T) {
	before := load(t, changesBefore)
	none, five := map[string]TokenChange{}, map[string]TokenChange{"x": {Added: []string{"e"}, Now: 5}, "y": {Now: 1}}
	exchanged := map[string]TokenChange{"x": {Added: []string{"2", "4"}, Removed: []string{"2", "4"}, Now: 4}}
	secret := map[string]TokenChange{"y": {Added: []string{"a"}, Removed: []string{"a"}, Now: 1}}
	for _, c := range []struct {
		what, after string
		tokens      map[string]TokenChange
		want        string
	}{
		{"nothing", changesBefore, none, "nothing has changed"},
		{"a comment, which moves the lines", "# one\n\n" + changesBefore, none, "nothing has changed"},
		{"a limit", strings.Replace(changesBefore, "requests: 5", "requests: 6", 1), none, "limits of api.example.com changed"},
		{"a token more in the pool's source", changesBefore, five, "pool x: 4 → 5 tokens"},
		{"another secret", strings.Replace(changesBefore, "canary-a}", "canary-b}", 1), secret, "tokens of pool y changed"},
		{"other tokens in the pool's source", changesBefore, exchanged, "tokens of pool x changed"},
		{"a pool's limit", strings.Replace(changesBefore, "concurrency: 4", "concurrency: 1", 1), none, "limits of api.example.com changed; limits of pool x changed"},
		{"a rule's setting", strings.Replace(changesBefore, "robots: true", "robots: false", 1), none, "robots of c.test true → false"},
		{"a rule more", changesBefore + "  - {host: d.test}\n", none, "rules 3 → 4; rule d.test added"},
		{
			"the order", strings.Replace(strings.Replace(changesBefore, "host: c.test", "host: SWAP", 1), `"*.example.org"`, "c.test", 1), none,
			"rule *.example.org removed; limits of c.test changed; robots of c.test true → false; rule swap added",
		},
		{"secrets of the operator and of a client", strings.NewReplacer("canary-admin", "other", "canary-shop", "other").Replace(changesBefore), none, "secret of client shop changed; admin.token changed"},
		{"a setting", strings.Replace(changesBefore, "wait: 30m", "wait: 90s", 1), none, "queue.wait 30m → 1m30s"},
		{"the password of the next hop", strings.Replace(changesBefore, "canary-hop@proxy.test", "canary-hop@other.test", 1), none, "egress.proxy changed"},
		{"everything", "mode: observe\n", nil, "rules 3 → 0; rule api.example.com removed; rule *.example.org removed; rule c.test removed; pools 2 → 0; pool x removed; pool y removed; " +
			"clients 2 → 0; client news removed; client shop removed; admin.token changed; egress.proxy changed; mode enforce → observe"},
	} {
		got := ChangesText(Changes(before, load(t, c.after), c.tokens))
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", c.what, got, c.want)
		}
		if strings.Contains(got, "canary") {
			t.Errorf("%s: a secret is in %s", c.what, got)
		}
	}
}

func TestChangesOfListsNameWhatDiffers(t *testing.T) {
	old := load(t, `egress: {resolve: {"a.test:80": 127.0.0.1, "b.test:80": 127.0.0.1, "c.test:80": 127.0.0.1}, hosts: [a.test, b.test], allow: [10.0.0.0/8]}`)
	next := load(t, `egress: {resolve: {"a.test:80": 127.0.0.1, "c.test:80": 127.0.0.2, "d.test:80": 127.0.0.1}, hosts: [a.test, b.test, c.test], allow: [10.1.0.0/16]}`)
	want := "egress.allow 10.0.0.0/8 → 10.1.0.0/16; egress.hosts c.test added; egress.resolve b.test:80 = 127.0.0.1:80 removed; egress.resolve c.test:80 = 127.0.0.1:80 removed; " +
		"egress.resolve c.test:80 = 127.0.0.2:80 added; egress.resolve d.test:80 = 127.0.0.1:80 added"
	if got := ChangesText(Changes(old, next, nil)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestManyChangesAreSummedUp(t *testing.T) {
	var many strings.Builder
	many.WriteString("sites:\n")
	for i := range 40 {
		many.WriteString("  - {host: h" + strings.Repeat("x", i) + ".test}\n")
	}
	list := Changes(load(t, ""), load(t, many.String()), nil)
	if len(list) != 20+1 || list[0] != "rules 0 → 40" || list[20] != "and 21 more changes" {
		t.Errorf("%d: %q", len(list), list)
	}
}

func TestTheAdminListenerIsReadFromAFileWithFaults(t *testing.T) {
	env := map[string]string{"TOKEN": "sesame-open"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	read := func(text string, flags map[string]string) (Admin, Faults) {
		p, faults := LoadAdmin(Source{Path: "abide.yaml", Data: []byte(text), Lookup: lookup, Flags: flags})
		return p.Admin, faults
	}
	for _, c := range []struct {
		text, listen, token string
		faults              int
	}{
		{"", "127.0.0.1:9128", "", 0},
		{"lissten: 1\nadmin: {listen: 127.0.0.1:1, token: \"${TOKEN}\"}\nsites: nonsense\n", "127.0.0.1:1", "sesame-open", 0},
		{"admin: 127.0.0.1:2\n", "127.0.0.1:2", "", 0},
		{"admin: off\n", "", "", 0},
		{"admin: {listen: 127.0.0.1:3, token: \"${MISSING}\"}\n", "127.0.0.1:3", "", 1},
		{"admin: {listen: nonsense}\n", "127.0.0.1:9128", "", 1},
		{"admin: [\n", "127.0.0.1:9128", "", 1},
		{"[1, 2]\n", "127.0.0.1:9128", "", 0},
	} {
		a, faults := read(c.text, nil)
		if a.Listen != c.listen || a.Token.Reveal() != c.token || len(faults) != c.faults {
			t.Errorf("%q: %s %q %v", c.text, a.Listen, a.Token.Reveal(), faults)
		}
	}
	if a, faults := read("admin: 127.0.0.1:2\n", map[string]string{"admin.listen": "127.0.0.1:4"}); a.Listen != "127.0.0.1:4" || len(faults) > 0 {
		t.Errorf("a flag: %s %v", a.Listen, faults)
	}
	env["ABIDE_ADMIN"], env["ABIDE_LISTEN"], env["ABIDE_ADMIN_TOKEN"] = "127.0.0.1:5", "nonsense", "other"
	if a, faults := read("admin: [\n", nil); a.Listen != "127.0.0.1:5" || a.Token.Reveal() != "other" || len(faults) != 1 || faults[0].Source != "abide.yaml" {
		t.Errorf("the environment: %s %v", a.Listen, faults)
	}
	if _, faults := read("", map[string]string{"admin.listen": "nonsense"}); len(faults) != 1 || faults[0].Source != "flag" {
		t.Errorf("a wrong flag: %v", faults)
	}
}

func TestAFileWithoutKeysIsTold(t *testing.T) {
	for text, want := range map[string]bool{"": true, "# only\n": true, "{}\n": true, "---\n": true, "null\n": false, "listen: 1\n": false, "[\n": false, "[]\n": false} {
		if got := HasNoKeys([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestEveryKeyOfARuleAPoolAndAClientIsCompared(t *testing.T) {
	d := &Decoder{}
	for kind, fields := range map[string][]Field{
		"rule":   (&siteReading{d: d, site: &Site{}}).fields(),
		"pool":   poolFields(d, &Pool{}),
		"client": clientFields(d, &Client{}, nil),
	} {
		for _, f := range fields {
			if f.to == nil {
				t.Errorf("%s of a %s points to nothing, so a reload does not tell its change; add into", f.name, kind)
			}
		}
	}
}
