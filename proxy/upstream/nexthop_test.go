package upstream

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hop is a next hop that hears one head per connection and then does as told.
type hop struct {
	does  func(conn net.Conn)
	mu    sync.Mutex
	heads []string
	live  sync.WaitGroup
	tls   *tls.Config
	dials []netip.AddrPort
}

func (h *hop) connect(_ context.Context, a netip.AddrPort) (net.Conn, error) {
	here, there := net.Pipe()
	h.dials = append(h.dials, a)
	h.live.Go(func() {
		var conn net.Conn = there
		if h.tls != nil {
			conn = tls.Server(there, h.tls)
		}
		defer there.Close()
		in := bufio.NewReader(conn)
		var head strings.Builder
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if line == "\r\n" {
				break
			}
		}
		h.mu.Lock()
		h.heads = append(h.heads, head.String())
		h.mu.Unlock()
		h.does(conn)
	})
	return here, nil
}

func (h *hop) heard() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.heads, "")
}

func replies(s string) func(net.Conn) {
	return func(conn net.Conn) {
		io.WriteString(conn, s)
		io.Copy(conn, conn) // an echo
	}
}

func through(t *testing.T, h *hop, address string) *NextHop {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return &NextHop{URL: u, Via: "1.1 abide-1", Dialer: &Dialer{Timeout: 10 * time.Second, connect: h.connect}}
}

func echoes(t *testing.T, c net.Conn, want string) {
	t.Helper()
	sent := make(chan struct{})
	go func() { io.WriteString(c, "ping"); close(sent) }()
	defer func() { <-sent }()
	got := make([]byte, len(want)+4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want+"ping" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestATunnelThroughTheNextHopIsAskedForWithCredentialsAndVia(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hop{does: replies("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")}
		n := through(t, h, "http://us%40er:pa%3Ass@10.0.0.8:3128")
		m := &tally{}
		ctx := withMeter(WithVia(t.Context(), "1.1 first"), m)
		c, err := n.Tunnel(ctx, "api.test", 443)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := c.(*meteredConn); !ok {
			t.Errorf("a %T stands between the relay and the socket", c)
		}
		echoes(t, c, "")
		want := "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nProxy-Authorization: Basic dXNAZXI6cGE6c3M=\r\n" +
			"Via: 1.1 first, 1.1 abide-1\r\n\r\n"
		if got := h.heard(); got != want {
			t.Errorf("it heard %q", got)
		}
		if h.dials[0] != netip.MustParseAddrPort("10.0.0.8:3128") {
			t.Errorf("dialed %v", h.dials)
		}
		m.expect(t, int64(len("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")+4), int64(len(want)+4))
		c.Close()
		h.live.Wait()
	})
}

func TestWhatTheSiteSaysFirstComesThroughTheNextHop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hop{does: replies("HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.0 200 Connection established\n\n220 ready\r\n")}
		c, err := through(t, h, "http://10.0.0.8").Tunnel(t.Context(), "2a00::1", 25)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := c.(interface{ NetConn() net.Conn }); ok {
			t.Error("the bytes that came early could be lost")
		}
		echoes(t, c, "220 ready\r\n")
		if err := c.(closeWriter).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("half a pipe was closed: %v", err)
		}
		if got := h.heard(); !strings.HasPrefix(got, "CONNECT [2a00::1]:25 HTTP/1.1\r\nHost: [2a00::1]:25\r\n") || strings.Contains(got, "Proxy-Auth") {
			t.Errorf("it heard %q", got)
		}
		c.Close()
		h.live.Wait()
	})
}

func TestANextHopThatRefusesOrTalksNonsenseIsToldApartFromTheSite(t *testing.T) {
	endless := func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := io.WriteString(conn, "X: "+strings.Repeat("y", 1000)+"\r\n"); err != nil {
				return
			}
		}
	}
	for name, does := range map[string]func(net.Conn){
		"407":                replies("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"),
		"403":                replies("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"),
		"502":                replies("HTTP/1.1 502 Bad Gateway\r\n\r\n"),
		"redirect":           replies("HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n"),
		"switch":             replies("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
		"not HTTP":           replies("SSH-2.0-x\r\n\r\n"),
		"bad status":         replies("HTTP/1.1 2x0 OK\r\n\r\n"),
		"bad version":        replies("HTTP/3 200 OK\r\n\r\n"),
		"closed":             func(net.Conn) {},
		"closed in head":     func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nA: b\r\n") },
		"endless head":       endless,
		"endless interim":    func(c net.Conn) { interim(c) },
		"silent":             func(c net.Conn) { io.Copy(io.Discard, c) },
		"silent in its head": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n"); io.Copy(io.Discard, c) },
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &hop{does: does}
			began := time.Now()
			_, err := through(t, h, "http://user:hush@10.0.0.8:3128").Tunnel(t.Context(), "api.test", 443)
			var e *Error
			want := Hop
			if name == "407" {
				want = HopLogin
			}
			if !errors.As(err, &e) || e.Kind != want {
				t.Fatalf("%s: %v", name, err)
			}
			if strings.Contains(e.Err.Error(), "hush") || strings.Contains(e.Err.Error(), "aHVzaA") {
				t.Errorf("%s: a secret in %v", name, e.Err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%s: took %v", name, took)
			}
			h.live.Wait()
		})
	}
}

func interim(c net.Conn) {
	for {
		if _, err := io.WriteString(c, "HTTP/1.1 102 Processing\r\n\r\n"); err != nil {
			return
		}
	}
}

func TestACallerThatLeavesEndsTheWaitForTheNextHop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hop{does: func(c net.Conn) { io.Copy(io.Discard, c) }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err := through(t, h, "http://10.0.0.8:3128").Tunnel(ctx, "api.test", 443)
		if KindOf(err) != Canceled || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		h.live.Wait()
	})
}

func TestANextHopThatCannotBeReachedIsTheNextHopsFault(t *testing.T) {
	n := newNetwork()
	n.does["10.0.0.8"] = says(errRefused)
	u, _ := url.Parse("http://10.0.0.8:3128")
	hop := &NextHop{URL: u, Dialer: &Dialer{connect: n.connect, Guard: &Guard{Own: listening("127.0.0.1:3128")}}}
	if _, err := hop.Tunnel(t.Context(), "api.test", 443); KindOf(err) != Hop {
		t.Errorf("%v", err)
	}
	hop.URL, _ = url.Parse("http://localhost:3128")
	if _, err := hop.Tunnel(t.Context(), "api.test", 443); KindOf(err) != Self {
		t.Errorf("itself as next hop: %v", err)
	}
	for _, bad := range []string{"socks5://10.0.0.8:1080", "http://", "http://:3128"} {
		hop.URL, _ = url.Parse(bad)
		if _, _, err := hop.Forward(t.Context()); KindOf(err) != Hop {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestANextHopIsNotAskedForWhatTheGuardRefuses(t *testing.T) {
	h := &hop{}
	n := through(t, h, "http://10.0.0.8:3128")
	for _, host := range append([]string{"localhost", "metadata.google.internal"}, special...) {
		if _, err := n.Tunnel(t.Context(), host, 443); KindOf(err) != Forbidden {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"", "a b", "a\r\nX: y", "a/b"} {
		if _, err := n.Tunnel(t.Context(), host, 443); KindOf(err) != invalid {
			t.Errorf("%q: %v", host, err)
		}
	}
	if _, err := n.Tunnel(WithVia(t.Context(), "1.1 a\r\nX: y"), "api.test", 443); KindOf(err) != invalid {
		t.Errorf("a Via of two lines: %v", err)
	}
	if len(h.dials) > 0 {
		t.Errorf("dialed %v", h.dials)
	}
}

func TestForwardGivesAConnectionAndItsCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hop{does: replies("")}
		c, auth, err := through(t, h, "http://u:p@10.0.0.8").Forward(t.Context())
		if err != nil || auth != "Basic dTpw" || h.dials[0].Port() != 80 {
			t.Fatalf("%q, %v, dialed %v", auth, err, h.dials)
		}
		c.Close()
		h.live.Wait()
	})
}

func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := x509.ParseCertificate(der)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestANextHopOverTLSIsVerifiedByItsOwnName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert, roots := certificate(t, "hop.test")
		h := &hop{does: replies("HTTP/1.1 200 OK\r\n\r\n"), tls: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}}
		n := through(t, h, "https://u:p@hop.test")
		n.Dialer.Resolver = &book{names: map[string][]answers{"hop.test": {{addrs: []string{"10.0.0.8"}}}}}
		if _, err := n.Tunnel(t.Context(), "api.test", 443); KindOf(err) != Hop {
			t.Errorf("without its root: %v", err)
		}
		n.TLS = &tls.Config{RootCAs: roots, ServerName: "api.test", NextProtos: []string{"h2"}}
		c, err := n.Tunnel(t.Context(), "api.test", 443)
		if err != nil {
			t.Fatal(err, errors.Unwrap(err))
		}
		if h.dials[0].Port() != 443 {
			t.Errorf("dialed %v", h.dials)
		}
		if newSide(c).tcp != nil {
			t.Error("the relay would pass by the TLS")
		}
		echoes(t, c, "")
		c.Close()
		h.live.Wait()
	})
}

func FuzzConnectAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200\n\nearly", "HTTP/1.1 103 X\r\nA: b\r\n\r\nHTTP/1.1 299 \r\n\r\n", "HTTP/1.1 407 \r\n\r\n", "\r\n", "HTTP/1.1 1000 x\r\n\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, _, err := sendConnect(readsFrom{strings.NewReader(s)}, "")
		if (c == nil) == (err == nil) {
			t.Fatalf("%v and %v", c, err)
		}
		if err == nil && !strings.HasPrefix(s, "HTTP/1.") {
			t.Errorf("%q opened a tunnel", s)
		}
	})
}

// readsFrom is a connection of which only reading and writing are used.
type readsFrom struct{ *strings.Reader }

func (readsFrom) Write(p []byte) (int, error)      { return len(p), nil }
func (readsFrom) Close() error                     { return nil }
func (readsFrom) LocalAddr() net.Addr              { return nil }
func (readsFrom) RemoteAddr() net.Addr             { return nil }
func (readsFrom) SetDeadline(time.Time) error      { return nil }
func (readsFrom) SetReadDeadline(time.Time) error  { return nil }
func (readsFrom) SetWriteDeadline(time.Time) error { return nil }
