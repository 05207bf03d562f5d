//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// writeKeyPair writes a certificate for names and 127.0.0.1, and its key, as NAME.pem and NAME.key.
func writeKeyPair(t *testing.T, name string, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "a listener"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	if len(names) == 0 {
		about.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

func TestListenersSpeakTLS(t *testing.T) {
	t.Parallel()
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
	defer site.Close()
	dir := t.TempDir()
	write(t, dir+"/site.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})))
	writeKeyPair(t, dir+"/proxy")
	writeKeyPair(t, dir+"/admin", "admin.test")
	write(t, dir+"/abide.yaml", `
data: state
listen_cert: proxy.pem
listen_key: proxy.key
admin: {cert: admin.pem, key: admin.key}
access: {clients: [{name: news, secret: s3cret-0123}]}
egress: {roots: site.pem, resolve: {"example.com:443": "`+site.Listener.Addr().String()+`"}}
`)
	d := launch(t, dir, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--listen-open", "127.0.0.1:0", "--intercept", "none")
	at := d.out.await(t, `proxy +https://(\S+)`)[1]
	open := d.out.await(t, `open +https://(\S+)`)[1]
	admin := d.out.await(t, `dashboard +https://(\S+)/`)[1]
	roots := func() *x509.CertPool {
		pool := x509.NewCertPool()
		text, err := os.ReadFile(dir + "/proxy.pem")
		if err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(text)
		pool.AddCert(site.Certificate())
		return pool
	}
	get := func(address string, config *tls.Config) string {
		transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "https", Host: address, User: url.UserPassword("news", "s3cret-0123")}), TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		status, body := fetch(t, &http.Client{Transport: transport, Timeout: patience}, "https://example.com/")
		return fmt.Sprint(status, " ", body)
	}
	if got := get(at, &tls.Config{RootCAs: roots()}); got != "200 here" {
		t.Errorf("a tunnel: %s", got)
	}
	if got := get(open, &tls.Config{InsecureSkipVerify: true}); got != "200 here" {
		t.Errorf("opened https: %s", got)
	}
	answer, err := http.Get("http://" + at + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode != 400 || !strings.Contains(string(body), "urn:abide:plain_http") {
		t.Errorf("plain http: %d %s", answer.StatusCode, body)
	}
	command := func(args ...string) (string, error) {
		c := exec.Command("abide", args...)
		c.Dir, c.Env = dir, environ(dir)
		text, err := c.CombinedOutput()
		return string(text), err
	}
	for _, args := range [][]string{{"healthcheck", "--admin", admin}, {"status", "--admin", admin}, {"status"}, {"reload"}} {
		if text, err := command(args...); err != nil {
			t.Errorf("%v: %v %s", args, err, text)
		}
	}
	// Elsewhere the certificate has to be trusted, for the address that is named.
	if text, err := command("status", "--config", "/dev/null", "--admin", admin); err == nil || !strings.Contains(text, "speaks TLS; name its certificate with --admin-ca") {
		t.Errorf("%v %s", err, text)
	}
	if text, err := command("status", "--config", "/dev/null", "--admin", admin, "--admin-ca", "proxy.pem"); err == nil || !strings.Contains(text, "is not trusted") {
		t.Errorf("%v %s", err, text)
	}
	if text, err := command("env", "--client", "news"); err != nil || !strings.Contains(text, "HTTPS_PROXY=https://news:s3cret-0123@"+open) {
		t.Errorf("%v %s", err, text)
	}
	// A new certificate is used without a restart.
	before, _ := os.ReadFile(dir + "/proxy.pem")
	writeKeyPair(t, dir+"/proxy")
	if text, err := command("reload"); err != nil {
		t.Fatal(err, text)
	}
	conn, err := tls.Dial("tcp", at, &tls.Config{RootCAs: roots()})
	if err != nil {
		t.Fatal("the new certificate:", err)
	}
	conn.Close()
	// A key of another certificate is refused, and the last good one stays.
	write(t, dir+"/proxy.pem", string(before))
	if text, err := command("reload"); err == nil || !strings.Contains(text, "listen_cert: reading the certificate") {
		t.Errorf("%v %s", err, text)
	}
	if strings.Contains(d.log.String(), "PRIVATE KEY") {
		t.Error("a key is in the log")
	}
}

func TestACertificateThatCannotBeReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	writeKeyPair(t, dir+"/one")
	writeKeyPair(t, dir+"/two")
	for document, want := range map[string]string{
		"listen_cert: one.pem\nlisten_key: none.key\n":        "listen_cert: reading the certificate",
		"listen_cert: one.pem\nlisten_key: two.key\n":         "private key does not match public key",
		"listen_cert: one.pem\n":                              "needs listen_key, the file with the key of this certificate",
		"admin: {key: one.key}\n":                             "needs admin.cert, the file with the certificate of this key",
		"admin: {listen: off, cert: one.pem, key: one.key}\n": "is for a listener that is off",
		"admin: {cert: one.pem, key: one.key}\n":              "",
	} {
		write(t, dir+"/abide.yaml", document)
		c := exec.Command("abide", "check")
		c.Dir, c.Env = dir, environ(dir)
		text, err := c.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(text), want) {
			t.Errorf("%q: %v %s", document, err, text)
		}
	}
}
