package upstream

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// failingCA issues certificates with something wrong.
type failingCA struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newFailingCA(t *testing.T) *failingCA {
	t.Helper()
	c := &failingCA{t: t}
	made := c.issue(func(cert *x509.Certificate) {
		cert.Subject.CommonName = "Test CA"
		cert.IsCA, cert.KeyUsage, cert.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	})
	c.cert, c.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return c
}

// issue makes a certificate for api.test, or what change makes of it, signed by
// the CA, or by itself when the CA is not made yet.
func (c *failingCA) issue(change func(*x509.Certificate)) *tls.Certificate {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "api.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		DNSNames: []string{"api.test"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	parent, signer := template, key
	if c.cert != nil {
		parent, signer = c.cert, c.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		c.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		c.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// serveEach serves connections one by one until the test ends.
func serveEach(t *testing.T, serve func(net.Conn)) netip.AddrPort {
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
				conn.SetDeadline(time.Now().Add(5 * time.Minute))
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); live.Wait() })
	return netip.MustParseAddrPort(l.Addr().String())
}

// shaking answers TLS as config has it.
func shaking(config *tls.Config) func(net.Conn) {
	return func(conn net.Conn) {
		secure := tls.Server(conn, config)
		if secure.Handshake() == nil {
			io.Copy(io.Discard, secure)
		}
	}
}

// hello reads what a TLS client says first.
func hello(conn net.Conn) { conn.Read(make([]byte, 4096)) }

// tlsFailures are servers with something wrong, and what is to be said of it.
func tlsFailures(t *testing.T, trusted *failingCA) map[string]struct {
	serve func(net.Conn)
	want  TLSFailure
} {
	stranger := newFailingCA(t)
	ended, begins := time.Now().Add(-time.Minute).Truncate(time.Second).UTC(), time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	shows := func(by *failingCA, change func(*x509.Certificate)) func(net.Conn) {
		return shaking(&tls.Config{Certificates: []tls.Certificate{*by.issue(change)}, NextProtos: []string{"h2", "http/1.1"}})
	}
	good := func(*x509.Certificate) {}
	return map[string]struct {
		serve func(net.Conn)
		want  TLSFailure
	}{
		"expired":       {shows(trusted, func(c *x509.Certificate) { c.NotAfter = ended }), TLSFailure{Fault: TLSExpired, At: ended}},
		"not yet valid": {shows(trusted, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = begins, begins.Add(time.Hour) }), TLSFailure{Fault: TLSNotYetValid, At: begins}},
		"wrong name":    {shows(trusted, func(c *x509.Certificate) { c.DNSNames = []string{"other.test", "*.other.test"} }), TLSFailure{Fault: TLSName, Names: []string{"other.test", "*.other.test"}}},
		"many names": {shows(trusted, func(c *x509.Certificate) {
			c.DNSNames = []string{"1.test", "2.test", "3.test", "4.test", strings.Repeat("a", 60) + "\n" + strings.Repeat("b", 60) + ".test", "6.test", "7.test"}
		}), TLSFailure{Fault: TLSName, Names: []string{"1.test", "2.test", "3.test", "4.test", strings.Repeat("a", 60) + " " + strings.Repeat("b", 38) + "…"}, More: 2}},
		"addresses": {shows(trusted, func(c *x509.Certificate) {
			c.DNSNames, c.IPAddresses = nil, []net.IP{net.ParseIP("10.1.2.3"), net.ParseIP("127.0.0.1"), net.ParseIP("192.0.2.7")}
		}), TLSFailure{Fault: TLSName, Names: []string{"192.0.2.7"}}},
		"no name":                     {shows(trusted, func(c *x509.Certificate) { c.DNSNames = nil }), TLSFailure{Fault: TLSName}},
		"unknown issuer":              {shows(stranger, good), TLSFailure{Fault: TLSIssuer, Issuer: "Test CA"}},
		"self-signed":                 {shows(&failingCA{t: t}, good), TLSFailure{Fault: TLSSelfSigned, Issuer: "api.test"}},
		"for clients":                 {shows(trusted, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), TLSFailure{Fault: TLSUnusable}},
		"TLS 1.1":                     {shaking(&tls.Config{Certificates: []tls.Certificate{*trusted.issue(good)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}), TLSFailure{Fault: TLSVersion}},
		"old ciphers":                 {shaking(&tls.Config{Certificates: []tls.Certificate{*trusted.issue(good)}, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}}), TLSFailure{Fault: TLSVersion}},
		"an alert":                    {shaking(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("no") }}), TLSFailure{Fault: TLSAlert}},
		"a certificate of the client": {shaking(&tls.Config{Certificates: []tls.Certificate{*trusted.issue(good)}, MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}), TLSFailure{Fault: TLSClient}},
		"plain HTTP": {func(conn net.Conn) {
			hello(conn)
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		}, TLSFailure{Fault: TLSNotTLS}},
		"another protocol": {func(conn net.Conn) { io.WriteString(conn, "220 mail.test ESMTP\r\n"); hello(conn) }, TLSFailure{Fault: TLSNotTLS}},
		"closed":           {hello, TLSFailure{Fault: TLSCut}},
		"reset": {func(conn net.Conn) {
			hello(conn)
			conn.(*net.TCPConn).SetLinger(0)
		}, TLSFailure{Fault: TLSCut}},
	}
}

func sameTLSFailure(a, b *TLSFailure) bool {
	return a != nil && a.Fault == b.Fault && slices.Equal(a.Names, b.Names) && a.More == b.More && a.Issuer == b.Issuer && a.At.Equal(b.At)
}

// connectProxy is a next hop that leads every CONNECT to one address.
func connectProxy(t *testing.T, to netip.AddrPort) *url.URL {
	t.Helper()
	at := serveEach(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		origin, err := net.Dial("tcp", to.String())
		if err != nil {
			return
		}
		defer origin.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		back := make(chan struct{})
		go func() {
			defer close(back)
			io.Copy(conn, origin)
			conn.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(origin, in)
		origin.Close()
		<-back
	})
	return &url.URL{Scheme: "http", Host: at.String()}
}

func TestATLSFailureSaysWhichItIs(t *testing.T) {
	trusted := newFailingCA(t)
	roots := x509.NewCertPool()
	roots.AddCert(trusted.cert)
	for name, one := range tlsFailures(t, trusted) {
		at := serveEach(t, one.serve)
		direct := &Dialer{Guard: &Guard{Local: true}, Resolve: map[string]string{"api.test:443": at.String()}}
		hop := &NextHop{URL: connectProxy(t, at), Dialer: &Dialer{Guard: &Guard{Local: true}}}
		for way, transport := range map[string]*Transport{
			"direct":               {Dial: direct.Dial, TLS: &tls.Config{RootCAs: roots}},
			"through the next hop": {Dial: hop.Tunnel, TLS: &tls.Config{RootCAs: roots}},
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				defer transport.Close()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.test/", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transport.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
					t.Fatal("it worked")
				}
				var e *Error
				if !errors.As(err, &e) || e.Kind != TLS || e.Sent {
					t.Fatalf("%#v", err)
				}
				if got := TLSFailureOf(err); !sameTLSFailure(got, &one.want) {
					t.Errorf("%+v, not %+v, of %v", got, one.want, e.Err)
				}
			})
		}
	}
}

func TestACertificateOfTheClientIsAskedForAfterTheHandshakeToo(t *testing.T) {
	trusted := newFailingCA(t)
	roots := x509.NewCertPool()
	roots.AddCert(trusted.cert)
	config := &tls.Config{
		Certificates: []tls.Certificate{*trusted.issue(func(*x509.Certificate) {})}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"http/1.1"},
	}
	at := serveEach(t, func(conn net.Conn) {
		shaking(config)(conn)
		io.Copy(io.Discard, conn) // to close with the request unread would take the alert back
	})
	dialer := &Dialer{Guard: &Guard{Local: true}, Resolve: map[string]string{"api.test:443": at.String()}}
	transport := &Transport{Dial: dialer.Dial, TLS: &tls.Config{RootCAs: roots}}
	defer transport.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if got := TLSFailureOf(err); KindOf(err) != TLS || got == nil || got.Fault != TLSClient {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestAFailureOfTLSWithTheNextHopIsTheHops(t *testing.T) {
	trusted := newFailingCA(t)
	roots := x509.NewCertPool()
	roots.AddCert(trusted.cert)
	for name, one := range tlsFailures(t, trusted) {
		at := serveEach(t, one.serve)
		hop := &NextHop{
			URL: &url.URL{Scheme: "https", Host: "api.test:443"}, TLS: &tls.Config{RootCAs: roots},
			Dialer: &Dialer{Guard: &Guard{Local: true}, Resolve: map[string]string{"api.test:443": at.String()}},
		}
		_, err := hop.Tunnel(t.Context(), "site.test", 443)
		if got := TLSFailureOf(err); KindOf(err) != Hop || !sameTLSFailure(got, &one.want) {
			t.Errorf("%s: %v, %+v, not %+v", name, err, got, one.want)
		}
	}
}
