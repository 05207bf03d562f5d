package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestAnExplanationSaysWhatBecomesOfAConnect compares explanations with CONNECTs for every
// combination of the settings.
func TestAnExplanationSaysWhatBecomesOfAConnect(t *testing.T) {
	const secret = "bmV3czpodW50ZXIy" // news:hunter2
	for _, intercept := range []string{"auto", "all", "none", "[api.test]", "[other.test]"} {
		for _, rule := range []string{"[]", "[{host: api.test, limits: [{requests: 9, per: 1m}]}]", "[{host: api.test, limits: [{requests: 9, per: 1m, path: /a}]}]", "[{host: api.test, learn: false}]"} {
			for _, access := range []string{"", "access: {clients: [{name: news, secret: hunter2}]}", "access: {clients: [{name: news, secret: hunter2, intercept: all}]}"} {
				for _, refused := range []bool{false, true} {
					name := fmt.Sprintf("intercept %s, sites %s, %s, refused %v", intercept, rule, access, refused)
					b := newTestProxy(t, "intercept: "+intercept, "sites: "+rule, access)
					client, proof := "127.0.0.1", ""
					if access != "" {
						client, proof = "news", "Proxy-Authorization: Basic "+secret+"\r\n"
					}
					if refused {
						b.server.interception.refusals.mu.Lock()
						b.server.interception.refusals.hosts.refuse(time.Now(), refusedKey{client: client, host: host, program: b.program()})
						b.server.interception.refusals.mu.Unlock()
					}
					said, err := b.server.Explain("GET", parseURL("https://"+host+"/"), client)
					must(t, err)
					if got := b.isOpened(proof); got != said.Intercepted {
						t.Errorf("%s: opened is %v, and the explanation says %v (%s)", name, got, said.Intercepted, said.Unread)
					}
					if counts := said.Unread == "refused"; counts == said.UnreadUntil.IsZero() {
						t.Errorf("%s: %q until %v", name, said.Unread, said.UnreadUntil)
					}
					b.stop()
				}
			}
		}
	}
}

// program is the program of the test, as the proxy sees it.
func (b *testProxy) program() string {
	b.t.Helper()
	conn := b.dial()
	defer conn.Close()
	from, err := netip.ParseAddrPort(conn.LocalAddr().String())
	must(b.t, err)
	to, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	must(b.t, err)
	return localProgram(from, to)
}

// isOpened tells whether https to the host is intercepted, by the certificate that the
// client gets.
func (b *testProxy) isOpened(proof string) bool {
	b.t.Helper()
	conn := b.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n%s\r\n", host, host, proof)
	head, err := readHead(bufio.NewReaderSize(byteReader{conn}, 16))
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		b.t.Fatalf("%q, %v", head, err)
	}
	secure := tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	must(b.t, secure.Handshake())
	ours := x509.NewCertPool()
	ours.AppendCertsFromPEM(b.ca.PEM())
	_, err = secure.ConnectionState().PeerCertificates[0].Verify(x509.VerifyOptions{Roots: ours, DNSName: host})
	return err == nil
}
