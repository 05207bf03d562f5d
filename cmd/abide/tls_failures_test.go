//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// brokenSite accepts connections and does with them what serve says.
func brokenSite(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var live sync.WaitGroup
	live.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			live.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); live.Wait() })
	return l.Addr().String()
}

// selfSigned shows a certificate that is its own issuer, good until then.
func selfSigned(t *testing.T, name string, until time.Time) (config *tls.Config, text string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-time.Hour), NotAfter: until, DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestATLSFailureIsNamedToTheClientAndInTheLog(t *testing.T) {
	dir := t.TempDir()
	shake := func(config *tls.Config) func(net.Conn) {
		return func(conn net.Conn) { _ = tls.Server(conn, config).Handshake() }
	}
	expired, expiredText := selfSigned(t, "expired.test", time.Now().Add(-time.Minute))
	other, otherText := selfSigned(t, "other.test", time.Now().Add(time.Hour))
	unknown, _ := selfSigned(t, "self.test", time.Now().Add(time.Hour))
	old := &tls.Config{Certificates: other.Certificates, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}
	sites := []struct {
		host   string
		serve  func(net.Conn)
		kind   string // of the problem, and in details of Proxy-Status
		proxy  string // error of Proxy-Status
		detail string
	}{
		{"expired.test", shake(expired), "tls_expired", "tls_certificate_error", "it ended at "},
		{"wrong.test", shake(other), "tls_name", "tls_certificate_error", "it is for other.test"},
		{"self.test", shake(unknown), "tls_self_signed", "tls_certificate_error", "egress.roots"},
		{"old.test", shake(old), "tls_version", "tls_protocol_error", "TLS 1.2"},
		{"plain.test", func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, "tls_not_tls", "tls_protocol_error", "another port"},
		{"cut.test", func(conn net.Conn) { _, _ = conn.Read(make([]byte, 4096)) }, "tls_cut", "connection_terminated", "on the way"},
	}
	write(t, dir+"/roots.pem", expiredText+otherText)
	var resolve strings.Builder
	for _, one := range sites {
		fmt.Fprintf(&resolve, "    \"%s:443\": %q\n", one.host, brokenSite(t, one.serve))
	}
	write(t, dir+"/abide.yaml", "data: none\nintercept: all\nbreaker: {failures: 0}\negress:\n  roots: roots.pem\n  resolve:\n"+resolve.String())
	d := serveIn(t, dir, nil)
	_, root := d.ask("/ca.pem")
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(root))
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{
			Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: d.proxy}),
			TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: h2,
		}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport, Timeout: patience}
		for _, one := range sites {
			answer, err := client.Get("https://" + one.host + "/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			var problem struct{ Type, Title, Detail string }
			if err := json.Unmarshal(body, &problem); err != nil || answer.StatusCode != 502 {
				t.Fatalf("%s: %d %s", one.host, answer.StatusCode, body)
			}
			if problem.Type != "urn:abide:"+one.kind || !strings.Contains(problem.Detail, one.detail) || strings.Contains(string(body), "127.0.0.1") {
				t.Errorf("%s: %s", one.host, body)
			}
			if got, want := answer.Header.Get("Proxy-Status"), `abide; error=`+one.proxy+`; details="`+one.kind+`"`; got != want {
				t.Errorf("%s: Proxy-Status: %s", one.host, got)
			}
		}
	}
	for _, one := range sites {
		d.log.await(t, `level=warning msg=".*`+one.host+`:443: [^"]*; `)
		if n := strings.Count(d.log.String(), one.host+":443: "); n != 1 {
			t.Errorf("%s has %d lines in the log", one.host, n)
		}
	}
}
