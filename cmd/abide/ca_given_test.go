//go:build unix

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// companyCA makes ca.crt and ca.key in dir, as an operator would with openssl.
func companyCA(t *testing.T, dir, extension string) {
	t.Helper()
	out, err := exec.Command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "365",
		"-subj", "/CN=Company CA", "-addext", "keyUsage=critical,keyCertSign", "-addext", extension,
		"-keyout", filepath.Join(dir, "ca.key"), "-out", filepath.Join(dir, "ca.crt")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// secureOrigin is a site of https on loopback, and the file that has abide trust it.
func secureOrigin(t *testing.T, dir string) (address, roots string) {
	t.Helper()
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "from the origin") }))
	t.Cleanup(site.Close)
	roots = filepath.Join(dir, "origin.pem")
	write(t, roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})))
	return site.Listener.Addr().String(), roots
}

// whoSigned asks for a page through the proxy, and answers who issued the
// certificate that the client was shown.
func (d *daemon) whoSigned(trusted *x509.CertPool, at string) string {
	d.t.Helper()
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: d.proxy}),
		TLSClientConfig: &tls.Config{RootCAs: trusted},
	}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: patience}).Get(at)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.TLS.PeerCertificates[0].Issuer.String()
}

func TestAFleetHasOneCAThatItsClientsTrust(t *testing.T) {
	dir := t.TempDir()
	companyCA(t, dir, "nameConstraints=critical,permitted;DNS:example.com")
	address, roots := secureOrigin(t, dir)
	trusted := x509.NewCertPool()
	for _, name := range []string{"ca.crt", "origin.pem"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !trusted.AppendCertsFromPEM(text) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	write(t, filepath.Join(dir, "abide.yaml"), "data: none\nca: {cert: ca.crt, key: ca.key}\nintercept: all\negress: {roots: "+roots+", resolve: {\"api.example.com:443\": \""+address+"\", \"127.0.0.1:443\": \""+address+"\"}}\n")
	for range 2 {
		d := serveIn(t, dir, nil)
		if got := d.whoSigned(trusted, "https://api.example.com/"); got != "CN=Company CA" {
			t.Errorf("what the CA may vouch for was signed by %s", got)
		}
		// 127.0.0.1 is in none of the certificate's constraints for addresses, of
		// which it has none, so every address is permitted.
		if got := d.whoSigned(trusted, "https://127.0.0.1/"); got != "CN=Company CA" {
			t.Errorf("an address was signed for by %s", got)
		}
		if _, served := d.ask("/ca.pem"); !strings.Contains(served, "BEGIN CERTIFICATE") || strings.Contains(served, "PRIVATE") {
			t.Errorf("/ca.pem: %s", served)
		}
	}
}

func TestAHostThatAGivenCAMayNotVouchForIsTunnelledAndSaid(t *testing.T) {
	dir := t.TempDir()
	companyCA(t, dir, "nameConstraints=critical,permitted;DNS:company.test")
	address, roots := secureOrigin(t, dir)
	trusted := x509.NewCertPool()
	text, err := os.ReadFile(roots)
	if err != nil || !trusted.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "abide.yaml"), "ca: {cert: ca.crt, key: ca.key}\negress: {resolve: {\"api.example.com:443\": \""+address+"\"}}\nsites: [{host: api.example.com, limits: [{requests: 1, per: 1s}]}]\n")
	d := serveIn(t, dir, nil)
	d.log.await(t, `ca\.cert may not vouch for api\.example\.com \(its name constraints are for company\.test\)`)
	for range 2 {
		if got := d.whoSigned(trusted, "https://api.example.com/"); strings.Contains(got, "Company") {
			t.Errorf("it was opened all the same: %s", got)
		}
	}
	d.log.await(t, `the name constraints of ca\.cert do not permit api\.example\.com, so its https passes unread`)
	if n := strings.Count(d.log.String(), "do not permit api.example.com"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}
