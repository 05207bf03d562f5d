package policy

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// The cases of the configuration, by their id.

func TestMalformedYAML(t *testing.T) {
	utf16 := func(s string) string {
		var b strings.Builder
		b.WriteString("\xff\xfe")
		for _, r := range s {
			b.WriteByte(byte(r))
			b.WriteByte(0)
		}
		return b.String()
	}
	for _, one := range []struct{ name, text, want string }{
		{"tab indentation", "log:\n\tlevel: info\n", "abide.yaml:2: is indented with a tab"},
		{"UTF-16", utf16("listen: 127.0.0.1:1\n"), "abide.yaml:1: is UTF-16"},
		{"UTF-16 without a mark", "l\x00i\x00s\x00", "abide.yaml:1: is UTF-16"},
		{"binary", "log: {}\n\x7fELF\x01\x00\x02", "abide.yaml:2: has the character U+007F"},
		{"NUL", "log: {}\nabc\x00", "abide.yaml:2: has a NUL"},
		{"Latin-1", "log: {}\n# caf\xe9\n", "abide.yaml:2: is not UTF-8"},
		{"10 MB", "a: " + strings.Repeat("x", 10<<20), "has 10485763B, a configuration has at most 4MiB"},
		{"unclosed double quote", "listen: \"127.0.0.1:1\nlog: {}\n", "abide.yaml:2: is not valid YAML"},
		{"unclosed single quote", "listen: '127.0.0.1:1\n", "abide.yaml:1: is not valid YAML"},
		{"unclosed bracket", "log: {}\negress:\n  ports: [80, 443\nlisten: a\n", "abide.yaml:3: is not valid YAML"},
		{"wrong indentation", "log:\n  level: info\n format: text\n", "abide.yaml:3: is not valid YAML"},
		{"a colon in a value", "log: {}\nlisten: a: b\n", "abide.yaml:2: is not valid YAML: mapping values"},
		{"no anchor", "log: {}\nadmin: {token: *hunter2}\n", "abide.yaml:2: refers with * to an anchor"},
		{"a list", "- a\n- b\n", "abide.yaml:1: takes keys with values, not a list"},
		{"a word", "listen\n", "abide.yaml:1: takes keys with values, not a single value"},
		{"a null", "listen:\n", "abide.yaml:1: listen: has no value"},
		{"a written null", "log: {level: ~}\n", "abide.yaml:1: log.level: has no value"},
		{"a tag", "listen: !!str 127.0.0.1:1\n", "abide.yaml:1: listen: has a tag"},
		{"a tag on a section", "log: !!map {level: info}\n", "abide.yaml:1: log: has a tag"},
		{"a tag on a key", "!!str listen: 127.0.0.1:1\n", "abide.yaml:1: has a key with a tag"},
		{"a merge key", "log: &a {level: info}\ntimeouts: {<<: *a}\n", "abide.yaml:2: timeouts: has a merge key"},
		{"a key that is a list", "[a, b]: c\n", "abide.yaml:1: has a key that is a list"},
		{"a list for a value", "listen: [a]\n", "abide.yaml:1: listen: takes a single value, not a list"},
		{"a value for a section", "log: debug\n", "abide.yaml:1: log: takes keys with values"},
		{"a value for a list of sections", "sites: a.test\n", "abide.yaml:1: sites: takes a list"},
	} {
		faults := refuse(t, one.text, one.want)
		if strings.Contains(faults.Error(), "hunter2") {
			t.Errorf("%s: the fault has the value: %v", one.name, faults)
		}
	}
	if p := load(t, "\ufefflisten: 127.0.0.1:1\r\nlog: {level: warn}\r\n"); p.Listen != "127.0.0.1:1" || p.Log.Level != "warn" {
		t.Errorf("a byte order mark or CRLF changed %+v", p)
	}
}

func TestUnknownMisspeltAndDuplicateKeys(t *testing.T) {
	for _, one := range []struct{ text, want string }{
		{"lisetn: 127.0.0.1:1\n", `abide.yaml:1: lisetn: is not a key; did you mean "listen"?`},
		{"sites: [{host: a.test, intercept: none}]\n", `abide.yaml:1: sites[0].intercept: is not a key; it stands at the top of the file`},
		{"sites: [{host: a.test, queue: {wait: 1s}}]\n", `abide.yaml:1: sites[0].queue: is not a key; it stands at the top of the file`},
		{"log:\n  levle: info\n", `abide.yaml:2: log.levle: is not a key; did you mean "level"?`},
		{"bounds: {idlePerHost: 3}\n", `did you mean "idle_per_host"?`},
		{"queue: {per-site: 3}\n", `did you mean "per_site"?`},
		{"connect: 3s\n", `did you mean "timeouts.connect"?`},
		{"log: {colour: blue}\n", "there are level, format, access"},
		{"sites: [a.test]\n", `sites[0]: is a single value where a rule belongs; write {host: "a.test"}`},
		{"sites: '*.a.test'\n", `sites: takes a list of rules, not a single value; write {host: "*.a.test"}`},
		{"sites: [{host: a.test, limts: []}]\n", `did you mean "limits"?`},
		{"sites: [{host: a.test, limits: [{reqeusts: 3, per: 1m}]}]\n", `sites[0].limits[0].reqeusts: is not a key; did you mean "requests"?`},
		{"listen: 127.0.0.1:1\nlog: {}\nlisten: 127.0.0.1:2\n", "abide.yaml:3: listen: is written twice, first in line 1"},
		{"log: {level: info, \"level\": warn}\n", "log.level: is written twice"},
		{"pools: {a: {env: A}, a: {env: B}}\n", "pools.a: is written twice"},
		{"egress: {resolve: {\"a.test:443\": 127.0.0.1:1, \"A.TEST.:443\": 127.0.0.1:2}}\n", "a.test:443 is listed twice"},
		{"Listen: 127.0.0.1:1\n", `did you mean "listen"?`},
	} {
		refuse(t, one.text, one.want)
	}
}

// largestRefusal is what a bomb may cost, in bytes: what it would become is 800 MiB at least.
const largestRefusal = 32 << 20

func TestBombsAreRefusedAtOnce(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	// One that goes where lists belong: 2,000 rules of 2,000 limits each.
	wide := "sites:\n  - &s\n    host: a.test\n    limits: &l\n" + strings.Repeat("      - {as: x}\n", 2000) + strings.Repeat("  - *s\n", 2000)
	silent := "sites:\n  - &s\n    host: &h [" + strings.Repeat("a.test, ", 2000) + "]\n" + strings.Repeat("  - {host: *h}\n", 2000)
	for name, text := range map[string]string{
		"laughs":      laughs,
		"laughs used": laughs + "sites: *a9\n",
		"wide":        wide,
		"silent":      silent,
		"cycle":       "&a [*a]\n",
		"cycle used":  "sites: &a [*a]\n",
		"cycle of keys": "sites:\n  - &a\n    host: a.test\n    limits: [*a]\n" +
			"pools: &p {x: *p}\n",
		"brackets":        strings.Repeat("[", 20_000),
		"closed brackets": "a: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		"braces":          strings.Repeat("{a: ", 20_000),
		"dashes":          strings.Repeat("- ", 20_000),
		"questions":       strings.Repeat("? ", 20_000),
		"deep used":       "sites: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
	} {
		// What goes off fills memory: that tells as much as time, on a busy machine too.
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		refuse(t, text, "abide.yaml")
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > largestRefusal {
			t.Errorf("%s: refused after %d MiB", name, n>>20)
		}
	}
	refuse(t, "sites: &a [*a]\n", "is an alias of what it is part of")
	refuse(t, strings.Repeat("[", 20_000), "nested too deeply")
	p := load(t, "sites:\n  - {host: a.test, limits: &l [{concurrency: 2}]}\n  - {host: b.test, limits: *l}\n")
	if len(p.Sites[1].Limits) != 1 || p.Sites[1].Limits[0].Amount != 2 {
		t.Errorf("an honest alias was lost: %+v", p.Sites[1])
	}
}

func TestTypesThatSurprise(t *testing.T) {
	both := func(key, value, want string) { // quoted or not
		t.Helper()
		for _, v := range []string{value, `"` + value + `"`, "'" + value + "'"} {
			text := fmt.Sprintf(key, v)
			_, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte(text)})
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", text, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), "abide.yaml:1: ")):
				t.Errorf("%s: %v", text, err)
			case want != "" && !strings.Contains(err.Error(), want):
				t.Errorf("%s: no %q in %v", text, want, err)
			}
		}
	}
	const (
		amount   = "sites: [{host: a.test, limits: [{requests: %s, per: 1m}]}]"
		duration = "timeouts: {idle: %s}"
		size     = "bounds: {upload: %s}"
		onOff    = "log: {access: %s}"
		rate     = "sites: [{host: a.test, limits: [{as: adaptive, min: %s, max: 1000/s}]}]"
		count    = "bounds: {idle: %s}"
	)
	for _, key := range []string{amount, count} {
		for _, v := range []string{"900", "5"} {
			if key == amount || v == "900" {
				both(key, v, "")
			}
		}
		for _, v := range []string{"1e3", "1_00", "1__000", "_100", "1,000", "0x10", "0o17", "0123", "5.0", "+5", "-1", "yes", "null", "NaN", ".nan", ".inf", "-.inf", "true", "", " ", "٣", "1h"} {
			if key == amount || v != "1,000" {
				both(key, v, " ")
			}
		}
		both(key, "0", "is less than 1")
		both(key, "99999999999999999999", "is more than")
	}
	for _, v := range []string{"500ms", "90s", "15m", "1h30m", "1.5s", "1d", "2w", "15 m", "15min", "15 Minutes", "1 hour 30 mins"} {
		both(duration, v, "")
	}
	for _, v := range []string{"90", "1.5"} {
		both(duration, v, "needs a unit")
	}
	both(duration, "0", "no time at all; write a duration such as 500ms")
	for _, v := range []string{"0s", "-1s", "+1s", "1e3s", "1_0s", "15M", "15 M", "15 mintues", "1 month", "m", "30m1h", "1h1h", "1.5h30m", "1.s", ".5s", "s", "yes", "null", "NaN", ".inf", "99999w", "1y", "05s", "99999999999999999999s", "1:30"} {
		both(duration, v, " ")
	}
	for _, v := range []string{"500B", "1kB", "1KB", "1MB", "1MiB", "1.5GB", "1 MB", "1mb", "1Mb", "500 kb", "64kib", "900 bytes", "1_000_000 B"} {
		both(size, v, "")
	}
	both(size, "1000", "needs a unit")
	for _, v := range []string{"0B", "-1B", "1M", "1Mi", "1 Mbit", "MB", "1 MB 5 kB", "1e3B", "0x10B", "99999999999TiB", "null"} {
		both(size, v, " ")
	}
	for _, v := range []string{"true", "false", "on", "off"} {
		both(onOff, v, "")
	}
	for _, v := range []string{"yes", "no", "1", "0", "True", "ON", "y", "null"} {
		both(onOff, v, " ")
	}
	for _, v := range []string{"2/s", "0.2/s", "100/m", "5000/h", "3/10s", "2 / s", "2 per minute", "1_000/hour", "3/10 seconds"} {
		both(rate, v, "")
	}
	for _, v := range []string{"2", "0/s", "-1/s", "1e3/s", "2/", "/s", "2/x", "NaN/s", "2/0s", "2/s/s"} {
		both(rate, v, " ")
	}
	if _, err := loadSource(t, Source{Environ: []string{"ABIDE_TIMEOUTS_IDLE=90"}}); err == nil || !strings.HasPrefix(err.Error(), "ABIDE_TIMEOUTS_IDLE: timeouts.idle: ") {
		t.Error(err)
	}
}

func TestASecondDocumentIsRefused(t *testing.T) {
	refuse(t, "mode: enforce\n---\nmode: observe\n", "abide.yaml:2: starts a second document")
	refuse(t, "---\nmode: enforce\n---\n", "second document")
	refuse(t, "mode: enforce\n...\n---\nmode: enforce\n", "second document")
	refuse(t, "mode: enforce\n---\n[", "abide.yaml:3: is not valid YAML")
	load(t, "---\nmode: enforce\n...\n")
}

func TestVariablesInSecrets(t *testing.T) {
	const canary = "canary-4711"
	env := []string{"A", "left", "B", canary, "EMPTY", ""}
	for _, one := range []struct{ written, want string }{
		{"${A}${B}", "left" + canary},
		{"x${A}-${B}y", "xleft-" + canary + "y"},
		{"$$", "$"},
		{"$${A}", "${A}"},
		{"$$$$${A}", "$$left"},
		{"a#b", "a#b"},
		{"0123", "0123"},
		{"yes", "yes"},
		{"file:/etc/secret", "file:/etc/secret"}, // no reference, a secret as any other
	} {
		for _, text := range []string{"admin:\n  token: " + one.written, "admin: {token: " + one.written + "}", "admin: {token: \"" + one.written + "\"}", "admin: {token: '" + one.written + "'}"} {
			if p := load(t, text, env...); p.Admin.Token.Reveal() != one.want {
				t.Errorf("%s became %q", text, p.Admin.Token.Reveal())
			}
		}
	}
	for written, want := range map[string]string{
		"${UNSET}":        "the variable UNSET, which is not set",
		"${B}${UNSET}":    "the variable UNSET, which is not set",
		"${EMPTY}":        "the variable EMPTY, which is empty",
		canary + "$x":     "name of a variable in braces",
		canary + "$":      "name of a variable in braces",
		canary + "${":     "name of a variable in braces",
		canary + "${A-x}": "name of a variable in braces",
		"${}":             "name of a variable in braces",
	} {
		for _, text := range []string{"log: {}\nadmin:\n  token: \"%s\"\n", "access:\n  clients:\n    - {name: a, secret: \"%s\"}\n"} {
			_, err := loadSource(t, Source{Path: "abide.yaml", Data: fmt.Appendf(nil, text, written), Lookup: environ(env...)})
			if err == nil || !strings.Contains(err.Error(), "abide.yaml:3: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", written, err)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the secret is in the fault: %v", err)
			}
		}
	}
	// Whatever else is wrong with what a secret holds, it is not told.
	for _, text := range []string{
		"egress: {proxy: \"http://u:${B}@h\"}", "egress: {proxy: \"${B}\"}", "egress: {proxy: \"http://u:${B}@h:1/${B}\"}",
		"egress: {proxy: \"socks5://u:${B}@h:1\"}", "store: \"${B}\"", "store: \"http://u:${B}@h\"", "store: \"redis://:${B}@\"",
		"access: {clients: [{" + canary + "}]}", "access: {clients: [" + canary + "]}", "pools: {a: {tokens: [{" + canary + ": x}]}}",
		"pools: {a: {tokens: [" + canary + "]}}", "pools: {a: {tokens: [{" + canary + ": x, " + canary + ": y}]}}", "pools: {a: {tokens: {" + canary + ": x}}}", "pools: {a: {env: A, put: \"Authorization: Bearer " + canary + "\"}}",
		"admin: {token: [" + canary + "]}", "admin: {token: !!str " + canary + "}", "admin: {token: *" + canary + "}", "admin: {token: \"" + canary + "\\z\"}",
	} {
		_, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte(text), Lookup: environ(env...)})
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", text, err)
		}
	}
	refuse(t, "log: {level: \"${A}\"}", "in secrets only")
	refuse(t, "sites: [{host: \"${A}.test\"}]", "in secrets only")
	p, err := loadSource(t, Source{Environ: []string{"ABIDE_ADMIN_TOKEN=a$b${c}"}})
	if err != nil || p.Admin.Token.Reveal() != "a$b${c}" {
		t.Errorf("a secret of the environment was not taken as it is: %v", err)
	}
	p = load(t, "egress: {proxy: \"http://u:${P}@proxy.test:3128\"}\nadmin: {token: ${B}}\naccess: {clients: [{name: n, secret: ${B}}]}\nstore: rediss://u:${B}@r.test:1\n",
		append(env, "P", "p@/:%#"+canary)...)
	if p.Egress.ProxyPassword.Reveal() != "p@/:%#"+canary || p.Egress.NextHop().Host != "proxy.test:3128" {
		t.Errorf("next hop %v", p.Egress.Proxy)
	}
	var out bytes.Buffer
	p.Describe(&out)
	p.Explain(&out, Target{Scheme: "https", Host: "a.test", Port: 443}, "", false)
	fmt.Fprintf(&out, "%v %+v %#v %s", p.Warnings(), p, p.Admin, p.Egress.Proxy)
	if strings.Contains(out.String(), canary) {
		t.Errorf("a secret is told:\n%s", out.String())
	}
}
