package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatchingOfHosts(t *testing.T) {
	p := load(t, `sites:
  - {host: "api.test:8443", name: port, group: rule}
  - {host: api.test, name: exact, group: rule}
  - {host: ["*.suffix.test", "[2001:db8::1]:443", 127.1], name: several, group: rule}
`)
	for _, one := range []struct{ target, want string }{
		{"api.test", "exact"},
		{"api.test.", "exact"},
		{"API.TEST", "exact"},
		{"api.test:443", "exact"},
		{"api.test:8443", "port"},
		{"a.suffix.test", "several"},
		{"a.b.c.suffix.test", "several"},
		{"[2001:DB8:0::1]", "several"},
		{"127.0.0.1:99", "several"},
		{"suffix.test", ""},
		{"evil-suffix.test", ""},
		{"suffix.test.evil.com", ""},
		{"a.suffix.test.evil.com", ""},
		{"api.test.evil.com", ""},
		{"evil-api.test", ""},
		{"x.api.test", ""},
		{"аpi.test", ""}, // a Cyrillic а
		{"xn--pi-6kc.test", ""},
		{"[2001:db8::1]:444", ""},
	} {
		target, err := ParseTarget("https", one.target)
		if err != nil {
			t.Errorf("%s: %v", one.target, err)
			continue
		}
		m := p.Match(target)
		if (m.Rule == nil) != (one.want == "") || m.Rule != nil && m.Site != one.want {
			t.Errorf("%s is %q, want %q", one.target, m.Site, one.want)
		}
	}
	for _, bad := range []string{"user@api.test", "api.test%2eevil", "api.test%00", "api.test/x", "api.test:443:444"} {
		if _, err := ParseTarget("https", bad); err == nil {
			t.Errorf("%q is a target", bad)
		}
	}
}

func TestWhatBrowsersAskByThemselves(t *testing.T) {
	p := load(t, "sites:\n  - {host: edge.microsoft.com}\n")
	for site, want := range map[string]bool{
		"connectivitycheck.gstatic.com": true, "safebrowsingohttpgateway.googleapis.com": true, "mtalk.google.com:5228": true,
		"r1.gvt1.com:8080": true, "gvt1.com.evil.test": false, "api.test:443": false, "edge.microsoft.com": false, "edge.microsoft.com:8443": false,
		"[::1]:80": false, "": false,
	} {
		if p.OfBrowser(site) != want {
			t.Errorf("%q: %v", site, !want)
		}
	}
}

func TestTheFirstRuleThatMatchesCounts(t *testing.T) {
	p := load(t, `sites:
  - {host: "a.example.com:8443"}
  - {host: "*.example.com"}
  - {host: "*:8080"}
  - {host: "*"}
`)
	for target, want := range map[string]int{
		"a.example.com:8443": 0, "a.example.com": 1, "a.example.com:8080": 1, "example.com": 3, "example.com:8080": 2, "[::1]:8080": 2, "127.0.0.1": 3,
	} {
		parsed, err := ParseTarget("https", target)
		if err != nil {
			t.Fatal(err)
		}
		if m := p.Match(parsed); m.Rule != &p.Sites[want] {
			t.Errorf("%s is the rule of line %d", target, m.Rule.Line)
		}
	}
	if alone := load(t, `sites: [{host: "*", name: all, group: rule}]`); alone.Match(Target{Host: "a.test", Port: 80}).Site != "all" {
		t.Error("a lone * matches nothing")
	}
	if m := Defaults().Match(Target{Host: "a.test", Port: 80}); m.Rule != nil || m.Site != "a.test" {
		t.Errorf("%+v", m)
	}
}

func TestASiteIsAHostADomainOrARule(t *testing.T) {
	p := load(t, `sites:
  - {host: "*.co.uk", group: domain}
  - {host: [127.0.0.1, co.uk, b.test], group: domain}
  - {host: ["*.r.test", r.test], group: rule}
`)
	for target, want := range map[string]string{
		"a.b.shop.co.uk": "shop.co.uk", "shop.co.uk:8443": "shop.co.uk", "127.0.0.1": "127.0.0.1", "127.0.0.1:81": "127.0.0.1:81", "co.uk": "co.uk",
		"x.r.test": "*.r.test", "r.test": "*.r.test", "other.test": "other.test", "other.test:80": "other.test", "other.test:8080": "other.test:8080", "[::1]:8080": "[::1]:8080",
	} {
		parsed, err := ParseTarget("https", target)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(parsed).Site; got != want {
			t.Errorf("%s is of %q, want %q", target, got, want)
		}
	}
}

func TestPatternsReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"A.Test.": "a.test", "a.test:443": "a.test:443", "a.test:*": "a.test", "*": "*", "*:80": "*:80", "*.A.test": "*.a.test", "*.a.test:1": "*.a.test:1",
		"::1": "[::1]", "[::1]": "[::1]", "[::1]:80": "[::1]:80", "127.1": "127.0.0.1", "*.bücher.test": "*.xn--bcher-kva.test", "*.com": "*.com",
	} {
		p, err := parsePattern(text)
		if err != nil || p.String() != want {
			t.Errorf("%q is %q, %v", text, p, err)
		}
	}
	for _, bad := range []string{
		"", "*.", "**", "*.*", "a.*", "a*.test", "*a.test", "a.*.test", "https://a.test", "a.test/x", "a.test:0", "a.test:", "a.test:x", "a.test:1:*", "*.127.0.0.1", "*.[::1]", "*.1", "::1:80:", "[::1", "a b", ".a.test", "user@a.test",
	} {
		if p, err := parsePattern(bad); err == nil {
			t.Errorf("%q is %q", bad, p)
		}
	}
}

// naive is the meaning of matching: the first rule of which a pattern matches.
func naive(sites []Site, host string, port uint16) int {
	for i := range sites {
		for _, p := range sites[i].Hosts {
			if p.matches(host, port) {
				return i
			}
		}
	}
	return none
}

func drawHost(t *rapid.T) string {
	labels := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "test", "a-b"}), 1, 4).Draw(t, "labels")
	return strings.Join(labels, ".")
}

func drawPattern(t *rapid.T) Pattern {
	p := Pattern{Port: rapid.SampledFrom([]uint16{0, 0, 80, 443}).Draw(t, "port")}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		p.All = true
		return p
	case 1, 2, 3:
		p.Below = true
	}
	p.Host = drawHost(t)
	return p
}

func TestMatchingIsTheFirstRuleThatMatchesForAnyRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sites := make([]Site, rapid.IntRange(0, 12).Draw(t, "rules"))
		for i := range sites {
			for range rapid.IntRange(1, 3).Draw(t, "patterns") {
				sites[i].Hosts = append(sites[i].Hosts, drawPattern(t))
			}
		}
		x := indexOfRules(sites)
		for range 8 {
			host, port := drawHost(t), rapid.SampledFrom([]uint16{80, 443, 8080}).Draw(t, "to port")
			if got, want := x.first(Pattern{Host: host, Port: port}), naive(sites, host, port); got != want {
				t.Fatalf("%s:%d is rule %d, want %d of %v", host, port, got, want, sites)
			}
		}
	})
}

func TestAPatternIsCoveredOnlyByOneThatMatchesAllItMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			c       index
			earlier []Pattern
		)
		for i := range rapid.IntRange(0, 8).Draw(t, "patterns") {
			p := drawPattern(t)
			c.add(p, i)
			earlier = append(earlier, p)
		}
		p := drawPattern(t)
		by := c.first(p)
		want := slices.IndexFunc(earlier, func(e Pattern) bool { return includes(e, p) })
		if by != none && by != want || by == none && want >= 0 {
			t.Fatalf("%v is covered by %d; want %d of %v", p, by, want, earlier)
		}
	})
}

// includes tells whether a matches all that b matches.
func includes(a, b Pattern) bool {
	switch {
	case a.Port != 0 && a.Port != b.Port:
		return false
	case a.All:
		return true
	case b.All:
		return false
	case a.Below && b.Below:
		return b.Host == a.Host || strings.HasSuffix(b.Host, "."+a.Host)
	case a.Below:
		return strings.HasSuffix(b.Host, "."+a.Host)
	}
	return !b.Below && a.Host == b.Host
}

func FuzzMatch(f *testing.F) {
	for _, one := range [][2]string{
		{"a.test *.b.test *", "x.b.test:443"},
		{"*.test a.test:80", "a.test:80"},
		{"* *:80", "[::1]:80"},
		{"127.1 [::1]:443", "127.0.0.1:1"},
		{"*.com:443 a.com", "a.com:443"},
		{"bücher.test *.xn--bcher-kva.test", "a.bücher.test:80"},
		{"a.a.a *.a.a *.a", "a.a.a:1"},
		{"*:1 *:2 *:1", "x:2"},
	} {
		f.Add(one[0], one[1])
	}
	f.Fuzz(func(t *testing.T, rules, target string) {
		host, port, err := ParseHostPort(target, 0)
		if err != nil {
			return
		}
		var sites []Site
		for _, text := range strings.Fields(rules) {
			p, err := parsePattern(text)
			if err != nil {
				continue
			}
			again, err := parsePattern(p.String())
			if err != nil || again != p {
				t.Fatalf("%q is %+v, written %q, which is %+v, %v", text, p, p, again, err)
			}
			sites = append(sites, Site{Hosts: []Pattern{p}})
		}
		x := indexOfRules(sites)
		if got, want := x.first(Pattern{Host: host, Port: port}), naive(sites, host, port); got != want {
			t.Fatalf("%s:%d is rule %d, want %d of %q", host, port, got, want, rules)
		}
	})
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	p := manyHosts(1000)
	target := Target{Scheme: "https", Host: "host-7.example.com", Port: 443}
	if n := testing.AllocsPerRun(100, func() { p.Match(target) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func manyHosts(n int) *Policy {
	p := Defaults()
	for i := range n {
		p.Sites = append(p.Sites, Site{Group: "host", Hosts: []Pattern{{Host: fmt.Sprintf("host-%d.example.com", i)}}})
	}
	p.Sites = append(p.Sites, Site{Group: "host", Hosts: []Pattern{{Host: "example.org", Below: true}}})
	p.index = indexOfRules(p.Sites)
	return p
}

// The time per match must not grow with the number of exact hosts, but for what
// the caches of the machine make of a larger map.
func BenchmarkMatchByExactHosts(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		p := manyHosts(n)
		targets := make([]Target, 1024)
		for i := range targets {
			targets[i] = Target{Scheme: "https", Host: fmt.Sprintf("host-%d.example.com", i*7919%(n*2)), Port: 443}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p.Match(targets[i%len(targets)])
				i++
			}
		})
	}
}
