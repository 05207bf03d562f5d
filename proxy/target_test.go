package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAConnectNeedsAPort(t *testing.T) {
	b := newTestProxy(t)
	for _, authority := range []string{"a.test", "a.test:", "/", ":80", "a.test:0", "a.test:65536", "a.test:http", "a.test:+80", "user@a.test:80", "a.test:80/x", "http://a.test:80"} {
		t.Run("CONNECT "+authority, func(t *testing.T) {
			resp, _ := sendRaw(t, b.dial(), "CONNECT "+authority+" HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp.StatusCode != 400 {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	if b.dialed.Load() != 0 {
		t.Error("something was dialed")
	}
}

// newNonLocalProxy is a proxy whose listener does not count as loopback.
func newNonLocalProxy(t *testing.T, lines ...string) *testProxy {
	return newTestProxy(t, append([]string{"egress: {ports: any}"}, lines...)...)
}

func TestLoopbackByEverySpellingIsRefusedForOthers(t *testing.T) {
	b := newNonLocalProxy(t)
	st := b.server.Current()
	st.Dialer().Guard.Local = false // as with a listener on another address
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { b.served.Add(1) }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for _, spelling := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "0", "localhost", "localhost.", "127.1", "2130706433", "0x7f.1", "017700000001",
		"169.254.169.254", "100.64.0.1", "198.18.0.1", "192.0.0.1", "224.0.0.1", "240.0.0.1", "[fc00::1]", "[fec0::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]",
	} {
		for _, request := range []string{
			"GET http://%[1]s:%[2]s/ HTTP/1.1\r\nHost: x\r\n\r\n",
			"CONNECT %[1]s:%[2]s HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			t.Run(fmt.Sprintf("%.7s %s", request, spelling), func(t *testing.T) {
				resp, body := sendRaw(t, b.dial(), fmt.Sprintf(request, spelling, port))
				if resp.StatusCode != 403 {
					t.Errorf("status %d %s", resp.StatusCode, body)
				}
			})
		}
	}
	t.Run("a zone", func(t *testing.T) {
		resp, _ := sendRaw(t, b.dial(), "CONNECT [fe80::1%25lo]:80 HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp.StatusCode != 403 && resp.StatusCode != 400 {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
	if b.served.Load() != 0 {
		t.Error("a loopback server was reached")
	}
}

func TestMetadataAddressesAreRefusedEvenForThisMachine(t *testing.T) {
	b := newTestProxy(t, "egress: {ports: any, allow: [0.0.0.0/0, '::/0']}")
	for _, a := range []string{"169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "2852039166", "[64:ff9b::a9fe:a9fe]"} {
		resp, _ := sendRaw(t, b.dial(), "GET http://"+a+"/latest/meta-data/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp.StatusCode != 403 {
			t.Errorf("%s: status %d", a, resp.StatusCode)
		}
	}
}

func TestARequestNeverComesBack(t *testing.T) {
	t.Run("the target is this proxy", func(t *testing.T) {
		b := newTestProxy(t, "egress: {ports: any}")
		for _, request := range []string{
			"GET http://" + b.addr + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
			"CONNECT " + b.addr + " HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			resp, _ := sendRaw(t, b.dial(), request)
			if resp.StatusCode != 508 {
				t.Errorf("%.7s: status %d", request, resp.StatusCode)
			}
		}
	})
	t.Run("a ring of two proxies", func(t *testing.T) {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		second := newTestProxy(t, fmt.Sprintf("egress: {ports: any, proxy: 'http://%s'}", first.Addr()), "intercept: none")
		front := newTestProxy(t, fmt.Sprintf("egress: {ports: any, proxy: 'http://%s'}", second.addr), "intercept: none")
		// front listens on its own address; join the ring with a plain relay.
		go relayAll(first, front.addr)
		defer first.Close()
		for _, request := range []string{
			"GET http://site.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
			"CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			resp, _ := sendRaw(t, front.dial(), request)
			if resp.StatusCode != 508 && resp.StatusCode != 502 {
				t.Errorf("%.7s: status %d", request, resp.StatusCode)
			}
		}
	})
}

// relayAll relays the connections of a listener to an address until the listener is closed.
func relayAll(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		go func() { io.Copy(out, in); out.Close(); in.Close() }()
		go func() { io.Copy(in, out); out.Close(); in.Close() }()
	}
}

func TestInsideATunnelOnlyItsTargetIsServed(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, inner := range []string{
		"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"GET https://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
		"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: api.test:8443\r\n\r\n",
	} {
		t.Run(fmt.Sprintf("%q", inner), func(t *testing.T) {
			resp, _ := sendRaw(t, b.open(viaInterception), inner)
			if resp.StatusCode != 421 {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	t.Run("authority over h2", func(t *testing.T) {
		r, err := http.NewRequest("GET", "https://api.test/", nil)
		must(t, err)
		r.Host = "evil.test"
		resp, err := b.client(true).Do(r)
		must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != 421 || resp.ProtoMajor != 2 {
			t.Errorf("status %d over HTTP/%d", resp.StatusCode, resp.ProtoMajor)
		}
	})
	if b.dialed.Load() != 0 {
		t.Error("something was dialed")
	}
}

func TestAHostThatIsNoHostIsRefused(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, h := range []string{"user@evil", "evil/x?", "a:443:444", "a%00b", "[::1]' UNION", "a b", "api.test:99999", "[::1", "api..test", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 127) + "test"} {
		for _, w := range []clientPath{plain, viaInterception} {
			t.Run(fmt.Sprintf("%.20q over %s", h, w), func(t *testing.T) {
				conn := b.open(w)
				if w == plain {
					fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", h, h)
				} else {
					fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", h)
				}
				if resp, _ := readResponse(t, conn, "GET"); resp.StatusCode != 400 {
					t.Errorf("status %d", resp.StatusCode)
				}
			})
		}
	}
	if b.dialed.Load() != 0 {
		t.Error("something was dialed")
	}
}

func TestCleartextInsideAnInterceptedTunnelIsRefused(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	resp, _ := sendRaw(t, b.connect(host+":443"), "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if resp.StatusCode != 400 || b.dialed.Load() != 0 {
		t.Errorf("status %d, %d dialed", resp.StatusCode, b.dialed.Load())
	}
}

func TestCleartextInsideConnect80IsPlainHTTP(t *testing.T) {
	for _, mode := range []string{"none", "all"} {
		b := newTestProxy(t, "intercept: "+mode)
		resp, body := sendRaw(t, b.open(viaConnect80), "GET /p HTTP/1.1\r\nHost: api.test\r\n\r\n")
		if resp.StatusCode != 200 || body != "GET api.test /p" {
			t.Errorf("intercept %s: %d %q", mode, resp.StatusCode, body)
		}
	}
}

func TestAnAbsoluteHTTPSURLWorksAndIsVerified(t *testing.T) {
	b := newTestProxy(t)
	resp, body := sendRaw(t, b.dial(), "GET https://api.test/p HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if resp.StatusCode != 200 || body != "GET api.test /p" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	distrusting := newTestProxy(t, "egress: {ports: any, resolve: {'api.test:443': '"+b.origin(true)+"'}}")
	resp, body = sendRaw(t, distrusting.dial(), "GET https://api.test/p HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if resp.StatusCode != 502 || !strings.Contains(body, "urn:abide:tls") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestTheCertificateIsForTheConnectName(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, sni := range []string{"", "other.test", host} {
		t.Run("SNI "+sni, func(t *testing.T) {
			c := tls.Client(b.connect(host+":443"), &tls.Config{ServerName: sni, InsecureSkipVerify: true})
			must(t, c.Handshake())
			if err := c.ConnectionState().PeerCertificates[0].VerifyHostname(host); err != nil {
				t.Error(err)
			}
			c.Close()
		})
	}
	t.Run("CONNECT by address", func(t *testing.T) {
		c := tls.Client(b.connect("127.0.0.7:443"), &tls.Config{ServerName: "api.test", InsecureSkipVerify: true})
		must(t, c.Handshake())
		if err := c.ConnectionState().PeerCertificates[0].VerifyHostname("127.0.0.7"); err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

func TestBytesSentWithTheConnectAreRelayed(t *testing.T) {
	for _, mode := range []string{"none", "all"} {
		t.Run("intercept "+mode, func(t *testing.T) {
			b := newTestProxy(t, "intercept: "+mode)
			conn := &earlyConn{Conn: b.dial(), first: "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n"}
			c := tls.Client(conn, &tls.Config{ServerName: host, RootCAs: b.clientRoots()})
			resp, body := sendRaw(t, c, "GET /p HTTP/1.1\r\nHost: api.test\r\n\r\n")
			if resp.StatusCode != 200 || body != "GET api.test /p" {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
		})
	}
}

// earlyConn sends its first bytes together with the first write, and drops the head that
// answers them.
type earlyConn struct {
	net.Conn
	first string
	heard *bufio.Reader
}

func (e *earlyConn) Write(p []byte) (int, error) {
	if e.first == "" {
		return e.Conn.Write(p)
	}
	_, err := e.Conn.Write(append([]byte(e.first), p...))
	e.first = ""
	return len(p), err
}

func (e *earlyConn) Read(p []byte) (int, error) {
	if e.heard == nil {
		e.heard = bufio.NewReader(e.Conn)
		if _, err := readHead(e.heard); err != nil {
			return 0, err
		}
	}
	return e.heard.Read(p)
}

func TestAClientThatWaitsForTheServerIsNotHeld(t *testing.T) {
	b := newTestProxy(t, "intercept: all", "timeouts: {handshake: 200ms}")
	conn := b.connect(host + ":443")
	begun := time.Now()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("something was said")
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("held for %v", took)
	}
}

func TestOneNameHasOneForm(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, spelling := range []string{"API.TEST", "api.test.", "Api.Test", "ａｐｉ.test", "api。test"} {
		t.Run(spelling, func(t *testing.T) {
			resp, body := sendRaw(t, b.dial(), "GET http://"+spelling+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp.StatusCode != 200 || body != "GET api.test /" {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
		})
	}
	for _, bad := range []string{"%61pi.test", "api..test", "[api.test]", ".test"} {
		t.Run(bad, func(t *testing.T) {
			resp, _ := sendRaw(t, b.dial(), "CONNECT "+bad+":443 HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp.StatusCode != 400 {
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
	for _, s := range b.metrics.Sites() {
		if s.Name != host && s.Name != "other" {
			t.Errorf("site %q", s.Name)
		}
	}
}

func TestOnlyHTTPSchemesAreProxied(t *testing.T) {
	b := newTestProxy(t)
	for _, u := range []string{"ftp://api.test/", "file:///etc/passwd", "gopher://api.test/", "ws://api.test/", "mailto:x"} {
		resp, _ := sendRaw(t, b.dial(), "GET "+u+" HTTP/1.1\r\nHost: api.test\r\n\r\n")
		if resp.StatusCode != 400 && resp.StatusCode != 501 {
			t.Errorf("%s: %d", u, resp.StatusCode)
		}
	}
	resp, _ := sendRaw(t, b.dial(), "GET HTTP://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if resp.StatusCode != 200 {
		t.Errorf("upper-case scheme: %d", resp.StatusCode)
	}
}

func TestConnectToAPortThatIsNotNamedIsRefused(t *testing.T) {
	b := newTestProxy(t, "egress: {ports: [80, 443]}")
	resp, _ := sendRaw(t, b.dial(), "CONNECT api.test:25 HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.StatusCode != 403 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestAClientMustAuthenticateWhereClientsAreNamed(t *testing.T) {
	b := newTestProxy(t, "access: {clients: [{name: news, secret: hunter2}]}", "intercept: all")
	for auth, want := range map[string]int{
		"": 407, "Basic bmV3czpodW50ZXIy": 200, "basic bmV3czpodW50ZXIy": 200, "Basic bmV3czpodW50ZXIz": 407,
		"Basic eDpodW50ZXIy": 407, "Basic !": 407, "Bearer bmV3czpodW50ZXIy": 407, "Basic bmV3cw==": 407,
	} {
		header := ""
		if auth != "" {
			header = "Proxy-Authorization: " + auth + "\r\n"
		}
		for _, request := range []string{"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n", "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test\r\n"} {
			conn := b.dial()
			io.WriteString(conn, request+header+"\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must(t, err)
			if resp.StatusCode != want {
				t.Errorf("%q: status %d, want %d", auth, resp.StatusCode, want)
			}
			if want == 407 && !strings.HasPrefix(resp.Header.Get("Proxy-Authenticate"), "Basic realm=") {
				t.Error("a 407 without a challenge")
			}
		}
	}
	if strings.Contains(b.log.String(), "hunter2") {
		t.Error("the secret is in the log")
	}
}

func TestAStrangerIsTurnedAway(t *testing.T) {
	b := newTestProxy(t, "access: {from: [192.0.2.0/24]}")
	resp, _ := sendRaw(t, b.dial(), "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if resp.StatusCode != 403 || b.dialed.Load() != 0 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestTheProcessEnvironmentDoesNotRedirectUpstreams(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	b := newTestProxy(t, "intercept: all")
	for _, w := range rawPaths {
		if resp, _ := sendRaw(t, b.open(w), "GET "+w.line("/")+" HTTP/1.1\r\nHost: api.test\r\n\r\n"); resp.StatusCode != 200 {
			t.Errorf("%s: status %d", w, resp.StatusCode)
		}
	}
}

func TestAnswersOfOursTellNothingOfTheInside(t *testing.T) {
	b := newTestProxy(t, "egress: {ports: any, resolve: {'down.test:80': '127.0.0.1:1'}}")
	resp, body := sendRaw(t, b.dial(), "GET http://down.test/secret?key=hunter2 HTTP/1.1\r\nHost: down.test\r\nAuthorization: Bearer hunter2\r\n\r\n")
	if resp.StatusCode != 502 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("content type %q", ct)
	}
	if ps := resp.Header.Get("Proxy-Status"); !strings.HasPrefix(ps, "abide; error=connection_refused") {
		t.Errorf("Proxy-Status %q", ps)
	}
	for _, secret := range []string{"127.0.0.1:1", "dial", "hunter2", "lookup"} {
		if strings.Contains(body, secret) {
			t.Errorf("the answer tells %q: %s", secret, body)
		}
	}
	if strings.Contains(b.log.String(), "hunter2") {
		t.Error("the log tells the secret")
	}
}

func TestAClientThatDistrustsTheCAIsToldAboutOnce(t *testing.T) {
	b := newTestProxy(t, "sites: [{host: api.test, limits: [{requests: 1000, per: 1s}]}]")
	for range 3 {
		conn := b.connect(host + ":443")
		c := tls.Client(conn, &tls.Config{ServerName: host, RootCAs: originRootsOnly()})
		if c.HandshakeContext(context.Background()) == nil {
			t.Fatal("it was trusted")
		}
		conn.Close()
	}
	eventually(t, 20*time.Second, "the line", func() bool { return strings.Contains(b.log.String(), "does not trust abide's CA") })
	if n := strings.Count(b.log.String(), "does not trust abide's CA"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

func TestAClientThatClosesWithoutAWordIsWonderedAbout(t *testing.T) {
	for name, leave := range map[string]func(b *testProxy){
		"in the handshake, as Node does": func(b *testProxy) { b.connect(host + ":443").Close() },
		"after it, as wget does":         func(b *testProxy) { b.secure(b.connect(host+":443"), host, "http/1.1").Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestProxy(t, "intercept: all")
			leave(b)
			eventually(t, 20*time.Second, "the line", func() bool { return strings.Contains(b.log.String(), "closed it without a request") })
		})
	}
}

func TestAConnectionThatAClientDidNotNeedIsNotWonderedAbout(t *testing.T) {
	bubble(t, echoing, "intercept: all", func(w *bubbleProxy) {
		unused := func(host string, after time.Duration) {
			conn, err := w.front.dial(w.t.Context())
			must(w.t, err)
			defer conn.Close()
			fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\nHost: %[1]s:443\r\n\r\n", host)
			if head, err := readHead(bufio.NewReaderSize(byteReader{conn}, 16)); err != nil || !strings.HasPrefix(head, "HTTP/1.1 200 ") {
				w.t.Errorf("%q, %v", head, err)
			}
			elapse(after)
		}
		doubts := func() int { synctest.Wait(); return strings.Count(w.log.String(), "closed it without a request") }
		key := refusedKey{client: netip.Addr{}.String(), host: "api.test"}
		unused("api.test", time.Second)
		elapse(unusedNear - time.Second)
		w.server.interception.refusals.accepted(key) // the connection that was needed is a little later
		elapse(time.Hour)
		if n := doubts(); n != 0 {
			w.t.Fatalf("a client that has opened two connections and uses one is doubted:\n%s", w.log.String())
		}
		w.server.interception.refusals.accepted(key)
		unused("api.test", 5*time.Second) // as a browser does, which opens one in advance
		elapse(time.Hour)
		if n := doubts(); n != 0 {
			w.t.Fatalf("a connection that was opened in advance is doubted:\n%s", w.log.String())
		}
		unused("api.test", 0)
		unused("other.test", 0)
		elapse(unusedNear + time.Millisecond)
		if n := doubts(); n != 1 {
			w.t.Errorf("%d lines about a client that comes and asks for nothing:\n%s", n, w.log.String())
		}
	})
}
