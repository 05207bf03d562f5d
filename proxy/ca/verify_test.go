package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var everyKindOfHost = []string{
	"api.test", "a.b.c.d.e.test", "test", "_dmarc.example.test", "r3---sn.example.test", "xn--bcher-kva.example",
	long(2), long(9), strings.Repeat("a", 63) + ".test", "192.0.2.7", "127.0.0.1", "2001:db8::7", "::1",
}

func TestStrictVerifiersAcceptEveryKindOfHost(t *testing.T) {
	c := open(t, "", Options{})
	for _, host := range everyKindOfHost {
		if out, err := openssl(t, c, host); err != nil {
			t.Errorf("openssl on %s: %s", host, out)
		}
		if _, err := leafOf(t, c, host).Verify(x509.VerifyOptions{Roots: pool(c), DNSName: bracketed(host)}); err != nil {
			t.Errorf("Go on %s: %v", host, err)
		}
	}
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func TestNameConstraintsHoldForOpenSSLAndGo(t *testing.T) {
	for _, one := range []struct {
		names     []string
		may, mayn []string
	}{
		{[]string{"api.test", "example.test"}, []string{"api.test", "v2.api.test", "example.test"}, []string{"other.test", "evilapi.test", "test", "192.0.2.7", "::1"}},
		{[]string{"*.api.test"}, []string{"www.api.test"}, []string{"other.test"}},
		{[]string{"192.0.2.7"}, []string{"192.0.2.7"}, []string{"192.0.2.8", "api.test", "::1"}},
		{[]string{"2001:db8::7", "api.test"}, []string{"2001:db8::7", "api.test"}, []string{"2001:db8::8", "192.0.2.7"}},
		{[]string{}, nil, []string{"api.test", "127.0.0.1", "::1"}},
	} {
		c := open(t, "", Options{Names: one.names})
		for _, host := range one.may {
			if out, err := openssl(t, c, host); err != nil {
				t.Errorf("%v, openssl refuses %s: %s", one.names, host, out)
			}
			if _, err := leafOf(t, c, host).Verify(x509.VerifyOptions{Roots: pool(c)}); err != nil {
				t.Errorf("%v, Go refuses %s: %v", one.names, host, err)
			}
		}
		for _, host := range one.mayn {
			if out, err := openssl(t, c, host); err == nil || !strings.Contains(out, "subtree violation") {
				t.Errorf("%v, openssl on %s: %s", one.names, host, out)
			}
			if _, err := leafOf(t, c, host).Verify(x509.VerifyOptions{Roots: pool(c)}); err == nil {
				t.Errorf("%v, Go accepts %s", one.names, host)
			}
		}
	}
}

func TestNameConstraintsAreCritical(t *testing.T) {
	root := rootOf(t, open(t, "", Options{Names: []string{"api.test"}}))
	for _, one := range root.Extensions {
		if one.Id.String() == "2.5.29.30" {
			if !one.Critical {
				t.Error("the name constraints are not critical")
			}
			return
		}
	}
	t.Error("there are no name constraints")
}

func TestTheRootIsWhatStrictClientsExpect(t *testing.T) {
	now := time.Now()
	root := rootOf(t, open(t, "", Options{}))
	if key, ok := root.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Error("its key is not on P-256")
	}
	if root.NotAfter.Before(now.AddDate(9, 11, 0)) || root.NotBefore.After(now.Add(-23*time.Hour)) {
		t.Errorf("it lives from %v to %v", root.NotBefore, root.NotAfter)
	}
	if !root.MaxPathLenZero || root.MaxPathLen != 0 {
		t.Error("it may sign other CAs")
	}
	if !strings.HasPrefix(root.Subject.CommonName, "abide CA ") {
		t.Errorf("it is called %s", root.Subject)
	}
	checkExtensions(t, root, map[string]bool{
		"2.5.29.19": true, "2.5.29.15": true, "2.5.29.14": false, "2.5.29.35": false,
	})
}

func TestALeafIsWhatStrictClientsExpect(t *testing.T) {
	c := open(t, "", Options{})
	serials := map[string]bool{}
	for _, host := range everyKindOfHost {
		leaf := leafOf(t, c, host)
		if life := leaf.NotAfter.Sub(leaf.NotBefore); life > 397*24*time.Hour {
			t.Errorf("%s: lives for %v", host, life)
		}
		if time.Since(leaf.NotBefore) < 23*time.Hour {
			t.Errorf("%s: not valid before %v", host, leaf.NotBefore)
		}
		if n := leaf.SerialNumber; n.Sign() <= 0 || n.BitLen() > 159 || n.BitLen() < 64 || serials[n.String()] {
			t.Errorf("%s: the serial number is %v", host, n)
		}
		serials[leaf.SerialNumber.String()] = true
		if len(leaf.Subject.CommonName) > 64 || leaf.IsCA {
			t.Errorf("%s: subject %v, CA %v", host, leaf.Subject, leaf.IsCA)
		}
		if len(leaf.DNSNames)+len(leaf.IPAddresses) != 1 {
			t.Errorf("%s: is for %v %v", host, leaf.DNSNames, leaf.IPAddresses)
		}
		if len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
			t.Errorf("%s: may be used for %v", host, leaf.ExtKeyUsage)
		}
		checkExtensions(t, leaf, map[string]bool{
			"2.5.29.19": true, "2.5.29.15": true, "2.5.29.14": false, "2.5.29.35": false, "2.5.29.37": false, "2.5.29.17": false,
		})
	}
}

func checkExtensions(t *testing.T, cert *x509.Certificate, want map[string]bool) {
	t.Helper()
	for _, one := range cert.Extensions {
		critical, ok := want[one.Id.String()]
		if !ok || critical != one.Critical {
			t.Errorf("%s: extension %v, critical %v", cert.Subject, one.Id, one.Critical)
		}
		delete(want, one.Id.String())
	}
	for missing := range want {
		t.Errorf("%s: extension %s is missing", cert.Subject, missing)
	}
}

// The proxy library that this is built on has a CA whose key is public.
func TestBuiltInCANeverUsed(t *testing.T) {
	for _, o := range []Options{{}, {Names: []string{"api.test"}}, {Names: []string{}}} {
		c := open(t, t.TempDir(), o)
		for _, host := range everyKindOfHost {
			leaf := leafOf(t, c, host)
			if !strings.HasPrefix(leaf.Issuer.CommonName, "abide CA ") || strings.Contains(leaf.Issuer.String(), "goproxy") {
				t.Errorf("%s was signed by %s", host, leaf.Issuer)
			}
			if err := leaf.CheckSignatureFrom(rootOf(t, c)); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
}

func TestAGoClientThatTrustsOnlyThisRootConnects(t *testing.T) {
	c := open(t, "", Options{Names: []string{"api.test", "192.0.2.7"}})
	for _, host := range []string{"api.test", "192.0.2.7"} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			state, err, _ := handshake(t, c, host, &tls.Config{
				RootCAs: pool(c), ServerName: host, MinVersion: version, MaxVersion: version, NextProtos: []string{"h2"},
			})
			if err != nil || state.NegotiatedProtocol != "h2" {
				t.Errorf("%s: %v, protocol %q", host, err, state.NegotiatedProtocol)
			}
		}
	}
}

func TestWhatIsOlderThanTLS12IsRefused(t *testing.T) {
	c := open(t, "", Options{})
	_, err, _ := handshake(t, c, "api.test", &tls.Config{
		RootCAs: pool(c), ServerName: "api.test", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	})
	if err == nil {
		t.Error("a client with TLS 1.1 got through")
	}
}

func TestTheCertificateIsForTheConnectNameWhateverTheClientSays(t *testing.T) {
	c := open(t, "", Options{})
	for _, said := range []string{"other.test", "API.TEST", ""} {
		var got []string
		_, err, _ := handshake(t, c, "api.test", &tls.Config{
			ServerName: said, InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error {
				got = s.PeerCertificates[0].DNSNames
				return nil
			},
		})
		if err != nil || len(got) != 1 || got[0] != "api.test" {
			t.Errorf("asked for %q: certificate for %v, %v", said, got, err)
		}
	}
}

func TestAHostThatNoCertificateCanNameIsRefused(t *testing.T) {
	c := open(t, "", Options{})
	for _, host := range []string{
		"", ".", "..", "a..b", ".test", "*.test", "*", "a b", "a/b", "a\x00b", "fe80::1%eth0", "[::1",
		strings.Repeat("a", 64) + ".test", long(11), "a@b", "a:443",
	} {
		if config, err := c.TLSConfig(host); err == nil {
			t.Errorf("%q got %v", host, config.Certificates[0].Certificate)
		}
	}
	if c.Cached() != 0 {
		t.Errorf("%d of them are kept", c.Cached())
	}
}

func TestSpellingsOfOneHostShareACertificate(t *testing.T) {
	signed := 0
	c := open(t, "", Options{OnSign: func() { signed++ }})
	for _, host := range []string{"api.test", "API.test", "api.test."} {
		leafOf(t, c, host)
	}
	for _, host := range []string{"::1", "[::1]", "0:0:0:0:0:0:0:1"} {
		leafOf(t, c, host)
	}
	for _, host := range []string{"192.0.2.7", "::ffff:192.0.2.7"} {
		leafOf(t, c, host)
	}
	for _, host := range []string{"bücher.test", "xn--bcher-kva.test"} {
		leafOf(t, c, host)
	}
	if signed != 4 {
		t.Errorf("%d signings", signed)
	}
}

func TestAUnionCoversBothAndARootCoversWhatItWasMadeFor(t *testing.T) {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a.test", "b.a.test", "c.b.a.test", "test", "other", "x.other", "192.0.2.1", "192.0.2.2", "2001:db8::1",
	}), 0, 5)
	key := open(t, "", Options{}).key
	rapid.Check(t, func(t *rapid.T) {
		constraints, err := parseNames(names.Draw(t, "one"))
		if err != nil {
			t.Fatal(err)
		}
		two, err := parseNames(names.Draw(t, "two"))
		if err != nil {
			t.Fatal(err)
		}
		both := constraints.union(two)
		if !both.covers(constraints) || !both.covers(two) {
			t.Fatalf("%v does not cover %v and %v", both, constraints, two)
		}
		made, err := newRoot(key, both, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if !made.names.covers(both) || !both.covers(made.names) {
			t.Fatalf("wrote %v, read %v", both.list(), made.names.list())
		}
	})
}
