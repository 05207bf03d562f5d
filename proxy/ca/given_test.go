package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// givenFiles are a certificate and a key as an operator has them.
type givenFiles struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// issue makes a certificate of a CA, signed by issuer or by itself.
func issue(t *testing.T, key crypto.Signer, issuer *givenFiles, change func(*x509.Certificate)) *givenFiles {
	t.Helper()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Company CA " + rand.Text()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &givenFiles{cert, key}
}

func ecdsaKey(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// written puts the certificates of a chain and the key of its first into files.
func written(t *testing.T, chain ...*givenFiles) Options {
	t.Helper()
	dir := t.TempDir()
	var text []byte
	for _, one := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.cert.Raw})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(chain[0].key)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Cert: write(t, filepath.Join(dir, "ca.crt"), text, 0o644),
		Key:  write(t, filepath.Join(dir, "ca.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
	}
}

// noted collects what the operator is told.
func noted(o Options) (Options, *[]string) {
	var told []string
	o.Notice = func(text string) { told = append(told, text) }
	return o, &told
}

func TestAGivenCASignsWithEveryUsualKey(t *testing.T) {
	for name, key := range map[string]crypto.Signer{
		"P-256": ecdsaKey(t, elliptic.P256()), "P-384": ecdsaKey(t, elliptic.P384()), "RSA": rsaKey(t, 2048),
	} {
		o, told := noted(written(t, issue(t, key, nil, nil)))
		c := open(t, t.TempDir(), o)
		if len(*told) > 0 {
			t.Errorf("%s: %q", name, *told)
		}
		if _, err := leafOf(t, c, "api.test").Verify(x509.VerifyOptions{Roots: pool(c), DNSName: "api.test"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out, err := openssl(t, c, "api.test"); err != nil {
			t.Errorf("%s, openssl: %s", name, out)
		}
	}
}

func TestAGivenCAIsReadAndNeverWritten(t *testing.T) {
	o, _ := noted(written(t, issue(t, ecdsaKey(t, elliptic.P256()), nil, func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(48 * time.Hour) // abide's own would be renewed
	})))
	before, err := os.ReadFile(o.Cert)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "ca")
	c := open(t, data, o)
	if err := c.SetNames([]string{"other.test"}); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(o.Cert)
	if err != nil || string(before) != string(after) || string(c.PEM()) != string(before) {
		t.Errorf("the certificate has changed: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(o.Cert)); len(entries) != 2 {
		t.Errorf("beside it is %v", entries)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("another CA was made in the data directory")
	}
	if about := c.About(); !about.Given || !about.Any || about.File != o.Cert || c.File() != o.Cert {
		t.Errorf("%+v", about)
	}
}

func TestLeavesOfAGivenIntermediateComeWithTheirIssuer(t *testing.T) {
	top := issue(t, rsaKey(t, 2048), nil, nil)
	middle := issue(t, ecdsaKey(t, elliptic.P256()), top, nil)
	roots := x509.NewCertPool()
	roots.AddCert(top.cert)
	for _, chain := range [][]*givenFiles{{middle}, {middle, top}} {
		c := open(t, "", written(t, chain...))
		config, err := c.TLSConfig("api.test")
		if err != nil {
			t.Fatal(err)
		}
		shown := config.Certificates[0]
		if len(shown.Certificate) != 2 || string(shown.Certificate[1]) != string(middle.cert.Raw) {
			t.Fatalf("%d certificates are shown", len(shown.Certificate))
		}
		between := x509.NewCertPool()
		between.AddCert(middle.cert)
		if _, err := leafOf(t, c, "api.test").Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "api.test"}); err != nil {
			t.Error(err)
		}
		bundle, err := c.Bundle()
		if err != nil {
			t.Fatal(err)
		}
		if got := certificates(t, bundle); !got[0].Equal(middle.cert) || len(chain) == 2 && !got[1].Equal(top.cert) {
			t.Error("the bundle does not begin with the chain")
		}
	}
}

func TestAGivenCAThatCannotSignIsRefusedWithTheReason(t *testing.T) {
	key := ecdsaKey(t, elliptic.P256())
	change := func(change func(*x509.Certificate)) Options { return written(t, issue(t, key, nil, change)) }
	text := func(o Options, cert, key string) Options {
		if cert != "" {
			o.Cert = write(t, filepath.Join(t.TempDir(), "other.crt"), []byte(cert), 0o644)
		}
		if key != "" {
			o.Key = write(t, filepath.Join(t.TempDir(), "other.key"), []byte(key), 0o600)
		}
		return o
	}
	good := change(nil)
	otherKey := written(t, issue(t, ecdsaKey(t, elliptic.P256()), nil, nil))
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"belongs to another key":              {Cert: good.Cert, Key: otherKey.Key},
		"is not the certificate of a CA":      change(func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature }),
		"key usage lacks keyCertSign":         change(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }),
		"extended key usage lacks serverAuth": change(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} }),
		"has expired":                         change(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"is not valid yet":                    change(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }),
		"neither ECDSA nor RSA":               written(t, issue(t, edwards, nil, nil)),
		"RSA key of 1024 bits":                written(t, issue(t, smallRSA(t), nil, nil)),
		"did not issue the one before it":     written(t, issue(t, key, nil, nil), issue(t, ecdsaKey(t, elliptic.P256()), nil, nil)),
		"no certificate in PEM":               text(good, "hello", ""),
		"no private key in PEM":               text(good, "", "hello"),
		"private key that cannot be read":     text(good, "", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
		"is encrypted":                        text(good, "", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"),
		"no such file":                        {Cert: good.Cert + "x", Key: good.Key},
	} {
		_, err := Open(t.TempDir(), o)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "ca.") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// smallRSA is a key of 1024 bits, which crypto/rsa does not make.
func smallRSA(t *testing.T) crypto.Signer {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	int := big.NewInt(1)
	for {
		p, errP := rand.Prime(rand.Reader, 512)
		q, errQ := rand.Prime(rand.Reader, 512)
		if errP != nil || errQ != nil {
			t.Fatal(errP, errQ)
		}
		n := new(big.Int).Mul(p, q)
		order := new(big.Int).Mul(new(big.Int).Sub(p, int), new(big.Int).Sub(q, int))
		d := new(big.Int).ModInverse(big.NewInt(65537), order)
		if n.BitLen() != 1024 || d == nil {
			continue
		}
		key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n, E: 65537}, D: d, Primes: []*big.Int{p, q}}
		key.Precompute()
		return key
	}
}

func TestAGivenKeyThatEverybodyCanReadIsToldOf(t *testing.T) {
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o440: 0, 0o644: 1} {
		o, told := noted(written(t, issue(t, ecdsaKey(t, elliptic.P256()), nil, nil)))
		if err := os.Chmod(o.Key, mode); err != nil {
			t.Fatal(err)
		}
		open(t, "", o)
		if len(*told) != want || want > 0 && !strings.Contains((*told)[0], "chmod 600") {
			t.Errorf("%04o: %q", mode, *told)
		}
	}
}

func TestAGivenCAThatEndsSoonIsToldOf(t *testing.T) {
	o, told := noted(written(t, issue(t, ecdsaKey(t, elliptic.P256()), nil, func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(20 * 24 * time.Hour)
	})))
	open(t, "", o)
	if len(*told) != 1 || !strings.Contains((*told)[0], "abide does not renew it") {
		t.Errorf("%q", *told)
	}
}

func TestTheNameConstraintsOfAGivenCAAreKept(t *testing.T) {
	_, network, err := net.ParseCIDR("192.0.2.0/24")
	if err != nil {
		t.Fatal(err)
	}
	given := issue(t, ecdsaKey(t, elliptic.P256()), nil, func(c *x509.Certificate) {
		c.PermittedDNSDomainsCritical = true
		c.PermittedDNSDomains = []string{"example.test", ".below.test"}
		c.ExcludedDNSDomains = []string{"secret.example.test"}
		c.PermittedIPRanges = []*net.IPNet{network}
	})
	o, told := noted(written(t, given))
	o.Names = []string{"api.example.test", "192.0.2.7", "other.test"}
	c := open(t, "", o)
	if len(*told) != 1 || !strings.Contains((*told)[0], "may not vouch for other.test (its name constraints are for example.test, .below.test, 192.0.2.0/24, not secret.example.test)") {
		t.Errorf("%q", *told)
	}
	if about := c.About(); about.Any || len(about.Names) != 4 {
		t.Errorf("%+v", about)
	}
	// What it says of a host is what crypto/x509 and openssl say of a leaf for it.
	for _, host := range []string{
		"example.test", "API.example.test", "secret.example.test", "a.secret.example.test", "notsecret.example.test",
		"evilexample.test", "below.test", "a.below.test", "other.test", "test", "192.0.2.7", "192.0.3.7", "2001:db8::7",
	} {
		free := open(t, "", written(t, given))
		free.root.Load().chain = nil // signs whatever it is asked for
		_, err := leafOf(t, free, host).Verify(x509.VerifyOptions{Roots: pool(c)})
		if got, want := c.Vouches(host), err == nil; got != want {
			t.Errorf("%s: %v, crypto/x509 says %v", host, got, err)
		}
		_, err = c.TLSConfig(host)
		if (err == nil) != c.Vouches(host) || err != nil && !strings.Contains(err.Error(), "name constraints are for example.test") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := c.SetNames([]string{"more.test"}); err != nil || len(*told) != 2 || !strings.Contains((*told)[1], "more.test") {
		t.Errorf("%v: %q", err, *told)
	}
}
