package policy

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzLoad(f *testing.F) {
	for _, path := range []string{"testdata/full.yaml", examplePath} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"", "{}", "listen: 127.0.0.1:1", "\ufeffadmin: {token: ${A}}", "a: &a [*a]", "sites: &a [*a]", "sites: [{host: [\"*\", a.test:1, \"[::1]\"], limits: &l [{bytes: 1MB, per: 1m}]}]",
		"pools: {a: {tokens: [{label: b, secret: ${C}$$}], put: \"query: k={token}\"}}", "egress: {proxy: \"http://u:${P}@h.test:1\", resolve: {\"a:1\": \"::1\"}}", "store: redis://${A}@h:1",
		"log: {level: info}\n---\nlog: {}", "<<: {a: b}", "!!map {}", "? [a]\n: b", "listen:\n\t- a", "intercept: [a.test, \"*.b.test\"]", "access: {from: [10.0.0.0/8, any]}", "timeouts: {idle: 1h30m}", "bounds: {upload: 1.5GB}",
		"data: ~/x", "shard: {index: 1, of: 2}", "{\"a\": \"\\u0000\"}", "%YAML 1.1\n---\n{}", "a: |\n  ${B}\n", "x: ${", "- - - - -",
		"sites: [{host: a.test, pool: a, learn: on, dialect: {headers: [{name: x-left, is: remaining, window: 1m}], refusals: [{says: [no], wait: 1s, until: UTC}], reset_unit: ms}}]\npools: {a: {env: A, limits: [{concurrency: 1, by: token}]}}",
	} {
		f.Add([]byte(s))
	}
	const canary = "canary-4711"
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte(canary)) {
			return
		}
		src := Source{Path: "abide.yaml", Data: data, Lookup: func(name string) (string, bool) {
			if name == "HOME" {
				return "/home/somebody", true
			}
			return canary, name == "A" || name == "P" || name == "ABIDE_ADMIN_TOKEN" || name == "NEWS_SECRET"
		}}
		p, err := Load(src)
		if err == nil && !bytes.ContainsFunc(data, func(r rune) bool { return r >= utf8.RuneSelf || r == '\\' }) {
			// Letters outside of ASCII that have the same capital are not in the patterns.
			if complaint := disagreement(data, nil, configurationSchema); complaint != "" {
				t.Fatal(complaint)
			}
		}
		if err != nil {
			var faults Faults
			if p != nil || !errors.As(err, &faults) || len(faults) == 0 || len(faults) > mostFaults+1 {
				t.Fatalf("%v, %v", p, err)
			}
			if strings.Contains(err.Error(), canary) {
				t.Fatalf("a secret is in the faults: %v", err)
			}
			most := 1
			for _, r := range string(data) {
				if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) { // what YAML takes for the end of a line
					most++
				}
			}
			for _, one := range faults {
				if strings.ContainsAny(one.Error(), "\n\x00") || one.Source == "" || one.Line > most {
					t.Fatalf("%q", one.Error())
				}
			}
			return
		}
		if hop := p.Egress.Proxy; hop != nil && strings.Contains(hop.Redacted(), canary) {
			return // its host and its user are told, as only the password is secret
		}
		if strings.Contains(p.Store.String(), canary) {
			return // so it is with a store
		}
		var out bytes.Buffer
		p.Describe(&out)
		p.Explain(&out, Target{Scheme: "https", Host: "a.test", Port: 443}, "", false)
		if bytes.Contains(out.Bytes(), []byte(canary)) {
			t.Fatalf("a secret is told: %s", out.Bytes())
		}
		for i := range p.Sites {
			for _, one := range p.Sites[i].Hosts {
				if host := one.Host; host != "" {
					if again, err := CanonicalHost(host); err != nil || again != host {
						t.Fatalf("%q is %q, %v", host, again, err)
					}
				}
			}
		}
		again := Defaults()
		l := newLoading(Source{})
		table := settings(&Decoder{loading: l, policy: again, outside: "flag"})
		for i, s := range p.settings() {
			if s.text != PlainText || s.Name == "shard.of" { // 0 is no shard at all
				continue
			}
			shown := s.show()
			table[i].Read(s.shape.node(strings.ReplaceAll(shown, " = ", "=")), s.Name)
			if len(l.faults) > 0 && !(s.Name == "access.from" && shown == "") {
				t.Fatalf("%s is %q: %v", s.Name, shown, l.faults)
			}
			if got := table[i].show(); got != shown {
				t.Fatalf("%s is %q, then %q", s.Name, shown, got)
			}
			l.faults = nil
		}
	})
}
