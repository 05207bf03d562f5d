package policy

import (
	"strings"
	"testing"
)

func TestHostNormalisation(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name253 := label63 + "." + label63 + "." + label63 + "." + strings.Repeat("a", 61)
	for _, one := range []struct{ spelt, want string }{
		{"a.test", "a.test"},
		{"A.TEST", "a.test"},
		{"a.test.", "a.test"},
		{"A.Test.", "a.test"},
		{"bücher.test", "xn--bcher-kva.test"},
		{"BÜCHER.test", "xn--bcher-kva.test"},
		{"bu\u0308cher.test", "xn--bcher-kva.test"}, // u and a combining diaeresis
		{"xn--bcher-kva.test", "xn--bcher-kva.test"},
		{"XN--BCHER-KVA.TEST", "xn--bcher-kva.test"},
		{"a。test", "a.test"}, // ideographic full stop
		{"a．test", "a.test"}, // fullwidth full stop
		{"a｡test", "a.test"}, // halfwidth ideographic full stop
		{"ａ.ｔｅｓｔ", "a.test"},
		{"straße.test", "xn--strae-oqa.test"},
		{"_dmarc.example.com", "_dmarc.example.com"},
		{"r3---sn.example.com", "r3---sn.example.com"},
		{"trailing-.example.com", "trailing-.example.com"},
		{name253, name253},
		{name253 + ".", name253},
		{"127.0.0.1", "127.0.0.1"},
		{"127.0.0.1.", "127.0.0.1"},
		{"127.1", "127.0.0.1"},
		{"2130706433", "127.0.0.1"},
		{"0x7f.1", "127.0.0.1"},
		{"0X7F000001", "127.0.0.1"},
		{"017700000001", "127.0.0.1"},
		{"１２７.0.0.1", "127.0.0.1"},
		{"0", "0.0.0.0"},
		{"[::1]", "::1"},
		{"::1", "::1"},
		{"[0:0::0:1]", "::1"},
		{"[2001:DB8::1]", "2001:db8::1"},
		{"[::ffff:127.0.0.1]", "127.0.0.1"},
		{"[::ffff:7f00:1]", "127.0.0.1"},
		{"::FFFF:127.0.0.1", "127.0.0.1"},
		{"1.2.3.4.example", "1.2.3.4.example"},
	} {
		got, err := CanonicalHost(one.spelt)
		if err != nil || got != one.want {
			t.Errorf("%q is %q, %v; want %q", one.spelt, got, err, one.want)
		}
	}
	for _, bad := range []string{
		"", ".", "..", "a..test", ".a.test", "a.test..", "%61.test", "a%2etest", "a%00b", "[example.com]", "[127.0.0.1]", "[::1", "::1]", "[]", "[::1]x",
		"a test", "a/test", "a\\test", "a@test", "user@a.test", "a?b", "a#b", "a,b", "a;b", "a\x00b", "a\tb", "a\nb", "<img>", "a:b", "fe80::1%lo", "[fe80::1%25lo]",
		"256.256.256.256", "1.2.3.4.5", "1.2.3.256", "08.1", "0x7g.1.", "\ufffd.test", "1..2", "4294967296", "xn--a", "xn--", "a.xn--zzzzzzzzz99999.test", "a\u200db.test", "\u00ad",
		strings.Repeat("a", 64) + ".test", name253 + "a", strings.Repeat("a.", 128), strings.Repeat("x", 100_000), "a.\xff.test", "*", "*.a.test",
	} {
		if got, err := CanonicalHost(bad); err == nil {
			t.Errorf("%q became %q", short(bad), got)
		}
	}
}

func TestOneKeyForMatchAndTarget(t *testing.T) {
	p := load(t, "sites: [{host: BÜCHER.test., name: books, group: rule}]")
	for _, spelt := range []string{"bücher.test", "BÜCHER.TEST", "xn--bcher-kva.test", "XN--bcher-KVA.test.", "bücher。test:443"} {
		target, err := ParseTarget("https", spelt)
		if err != nil {
			t.Errorf("%q: %v", spelt, err)
			continue
		}
		if m := p.Match(target); m.Site != "books" || target.HostPort() != "xn--bcher-kva.test:443" {
			t.Errorf("%q is %q at %s", spelt, m.Site, target.HostPort())
		}
	}
}

func TestAnAuthorityIsAHostAndAPort(t *testing.T) {
	for _, one := range []struct {
		text, host string
		port       uint16
	}{
		{"a.test:443", "a.test", 443},
		{"A.test.:1", "a.test", 1},
		{"[::1]:65535", "::1", 65535},
		{"127.1:80", "127.0.0.1", 80},
		{"a.test:00080", "a.test", 80},
	} {
		host, port, err := ParseHostPort(one.text, 0)
		if err != nil || host != one.host || port != one.port {
			t.Errorf("%q is %q, %d, %v", one.text, host, port, err)
		}
	}
	for _, bad := range []string{
		"", ":", "/", ":80", "a.test", "a.test:", "a.test:0", "a.test:65536", "a.test:+80", "a.test: 80", "a.test:80 ", "a.test:8o", "a.test:443:444", "::1:443", "[::1]", "[::1]443", "[::1]:",
		"user@a.test:443", "http://a.test:80", "a.test:443/x", "a.test:443?x", "a.test:99999999999999999999", "[a.test]:443", "a.test:-1", "a.test:\x00",
	} {
		if host, port, err := ParseHostPort(bad, 0); err == nil {
			t.Errorf("%q is %q, %d", bad, host, port)
		}
	}
	for _, one := range []struct{ scheme, text, want string }{
		{"http", "a.test", "a.test:80"}, {"https", "a.test", "a.test:443"}, {"https", "a.test:80", "a.test:80"}, {"http", "[::1]", "[::1]:80"}, {"http", "a.test:", "a.test:80"},
	} {
		if target, err := ParseTarget(one.scheme, one.text); err != nil || target.HostPort() != one.want {
			t.Errorf("%+v: %v, %v", one, target, err)
		}
	}
	for _, scheme := range []string{"", "ftp", "HTTP", "ws"} {
		if _, err := ParseTarget(scheme, "a.test"); err == nil {
			t.Errorf("scheme %q was taken", scheme)
		}
	}
	if !(Target{Scheme: "https", Port: 443}).UsualPort() || (Target{Scheme: "https", Port: 80}).UsualPort() || !(Target{Port: 80}).UsualPort() {
		t.Error("usual ports")
	}
}

func TestACanonicalHostCostsNoAllocation(t *testing.T) {
	for _, host := range []string{"www.example.com", "127.0.0.1", "2001:db8::1"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = CanonicalHost(host) }); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

func FuzzCanonicalHost(f *testing.F) {
	for _, s := range []string{
		"a.test", "A.TEST.", "bücher.test", "xn--bcher-kva.test", "ａ。ｔ", "127.1", "0x7f.1", "2130706433", "[::ffff:7f00:1]", "::1", "a..b", "%61", "[a]",
		"fe80::1%lo", "xn--a", "ß.test", "a\u200db", "0x", "0x.1", "1.0x", "٣.test", "xn--0", "0xg", "\u2024.test",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, _, err := ParseHostPort(s, 443); err != nil && len(err.Error()) > 500 {
			t.Fatalf("a fault of %d bytes", len(err.Error()))
		}
		host, err := CanonicalHost(s)
		if err != nil {
			return
		}
		again, err := CanonicalHost(host)
		if err != nil || again != host {
			t.Fatalf("%q is %q, which is %q, %v", s, host, again, err)
		}
		if len(host) > maxHost || host != strings.ToLower(host) || strings.ContainsAny(host, " /@%[]?#\\") || strings.HasSuffix(host, ".") {
			t.Fatalf("%q is %q", s, host)
		}
	})
}

func FuzzParseHostPort(f *testing.F) {
	for _, s := range []string{
		"a.test:443", "[::1]:443", "a.test", ":80", "/", "a:443:444", "user@a:1", "[::1", "[::1]x:1", "127.1:1", "a.test:+80", "a.test:0", "bücher.test:80", "[::ffff:7f00:1]:65535", "a.test.:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, port, err := ParseHostPort(s, 0)
		if err != nil {
			return
		}
		if port == 0 || host == "" {
			t.Fatalf("%q is %q, %d", s, host, port)
		}
		written := Target{Host: host, Port: port}.HostPort()
		again, samePort, err := ParseHostPort(written, 0)
		if err != nil || again != host || samePort != port {
			t.Fatalf("%q is %q, which is %q, %d, %v", s, written, again, samePort, err)
		}
		if other, _, err := ParseHostPort(s, 80); err != nil || other != host {
			t.Fatalf("%q is %q with a default port, %v", s, other, err)
		}
	})
}
