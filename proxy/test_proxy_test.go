package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

// A test server of net/http that closes early waits half a second by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// host is the name of the tests' site. It is not an address, because clients use no proxy
// for localhost.
const host = "api.test"

// trickleEvery is Options.TrickleEvery of the proxies that tests start.
var trickleEvery time.Duration

// testProxy is a proxy with a site behind it, over TCP. The site speaks http and https,
// HTTP/1 and HTTP/2.
type testProxy struct {
	t        testing.TB
	server   *Server
	addr     string // of the proxy
	ca       *ca.CA // the proxy's
	metrics  *metrics.Metrics
	log      *syncBuffer
	stop     func()
	patience time.Duration // of its clients; a minute

	ended endedReports

	roots   string // file with the origins' CA
	handler atomic.Value
	served  atomic.Int64 // requests that reached the origin
	dialed  atomic.Int64 // connections that reached the origin
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// originCA signs the certificates of all origins of a test run.
var originCA = sync.OnceValue(func() *ca.CA {
	c, err := ca.Open("", ca.Options{})
	if err != nil {
		panic(err)
	}
	return c
})

// newTestProxy starts a proxy with these lines of configuration, and its site.
func newTestProxy(t testing.TB, lines ...string) *testProxy {
	t.Helper()
	b := &testProxy{t: t, log: &syncBuffer{}}
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.URL.Path)
		if len(body) > 0 {
			fmt.Fprintf(w, " %q", body)
		}
	})
	plain := b.origin(false)
	secure := b.origin(true)
	b.start(map[string]string{host + ":80": plain, host + ":443": secure}, lines...)
	return b
}

// newRawTestProxy starts a proxy with a site that calls say with each connection and request
// head.
func newRawTestProxy(t testing.TB, say func(conn net.Conn, head string), lines ...string) *testProxy {
	t.Helper()
	b := &testProxy{t: t, log: &syncBuffer{}}
	serve := func(l net.Listener) string {
		var live sync.WaitGroup
		live.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				b.dialed.Add(1)
				live.Go(func() {
					defer conn.Close()
					conn.SetDeadline(time.Now().Add(20 * time.Second))
					in := bufio.NewReader(conn)
					for {
						head, err := readHead(in)
						if err != nil {
							return
						}
						b.served.Add(1)
						say(conn, head)
					}
				})
			}
		})
		t.Cleanup(func() { l.Close(); live.Wait() })
		return l.Addr().String()
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	under, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	secure := tls.NewListener(under, originTLS("http/1.1"))
	b.start(map[string]string{host + ":80": serve(plain), host + ":443": serve(secure)}, lines...)
	return b
}

func originTLS(protocols ...string) *tls.Config {
	return &tls.Config{
		NextProtos: protocols,
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			config, err := originCA().TLSConfig(h.ServerName)
			if err != nil {
				return nil, err
			}
			return &config.Certificates[0], nil
		},
	}
}

func readHead(in *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := in.ReadString('\n')
		head.WriteString(line)
		if err != nil {
			return head.String(), err
		}
		if line == "\r\n" {
			return head.String(), nil
		}
	}
}

func (b *testProxy) handle(h http.HandlerFunc) { b.handler.Store(h) }

// origin starts an http.Server that calls b.handler. It returns the address.
func (b *testProxy) origin(secure bool) string {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.served.Add(1)
		b.handler.Load().(http.HandlerFunc)(w, r)
	}))
	srv.Config.ErrorLog = quietLog()
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			b.dialed.Add(1)
		}
	}
	if secure {
		srv.EnableHTTP2 = true
		srv.TLS = originTLS("h2", "http/1.1")
		srv.StartTLS()
	} else {
		srv.Start()
	}
	b.t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// start runs the proxy; resolve maps names to the addresses of sites.
func (b *testProxy) start(resolve map[string]string, lines ...string) {
	b.t.Helper()
	dir := b.t.TempDir()
	b.roots = filepath.Join(dir, "roots.pem")
	must(b.t, os.WriteFile(b.roots, originCA().PEM(), 0o600))
	var y strings.Builder
	fmt.Fprintf(&y, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndata: none\n")
	said := map[string]bool{}
	for _, l := range lines {
		key, _, _ := strings.Cut(l, ":")
		said[key] = true
		fmt.Fprintln(&y, l)
	}
	for key, usual := range map[string]string{"retry": "{base: 1ms, max: 20ms}", "defaults": "{limits: []}", "breaker": "{failures: 0}"} {
		if !said[key] {
			fmt.Fprintln(&y, key+": "+usual)
		}
	}
	if !said["egress"] {
		fmt.Fprintf(&y, "egress:\n  roots: %s\n  ports: any\n  resolve:\n", b.roots)
		for from, to := range resolve {
			fmt.Fprintf(&y, "    %q: %q\n", from, to)
		}
	}
	p := b.policy(y.String())
	authority, err := ca.Open("", ca.Options{})
	must(b.t, err)
	log := logrus.New()
	log.SetOutput(b.log)
	log.SetLevel(logrus.DebugLevel)
	b.ca, b.metrics = authority, metrics.New(100)
	b.server, err = New(dispatch.Options{Policy: p, Metrics: b.metrics, Log: log, TrickleEvery: trickleEvery, Ended: b.ended.add}, authority)
	must(b.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b.t, err)
	b.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.server.Serve(ctx, l) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Serve: %v", err)
		}
	})
	b.t.Cleanup(b.stop)
}

func (b *testProxy) policy(y string) *policy.Policy {
	b.t.Helper()
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte(y), Lookup: func(string) (string, bool) { return "", false }})
	must(b.t, err)
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clientRoots are the roots of a client that trusts the proxy's CA and the site's.
func (b *testProxy) clientRoots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b.ca.PEM())
	pool.AppendCertsFromPEM(originCA().PEM())
	return pool
}

// dial opens a TCP connection to the proxy, which is closed at the end of the test.
func (b *testProxy) dial() net.Conn {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	must(b.t, err)
	b.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// connect opens a CONNECT to authority.
func (b *testProxy) connect(authority string) net.Conn {
	b.t.Helper()
	conn := b.dial()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	head, err := readHead(bufio.NewReaderSize(byteReader{conn}, 16))
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		b.t.Fatalf("CONNECT %s: %q, %v", authority, head, err)
	}
	return conn
}

// byteReader reads one byte at a time, so that a bufio.Reader reads no more than the head.
type byteReader struct{ net.Conn }

func (o byteReader) Read(p []byte) (int, error) { return o.Conn.Read(p[:1]) }

// secure does a TLS handshake inside a CONNECT.
func (b *testProxy) secure(conn net.Conn, name string, protocols ...string) *tls.Conn {
	b.t.Helper()
	c := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: b.clientRoots(), NextProtos: protocols})
	must(b.t, c.Handshake())
	return c
}

// clientPath is how a client reaches the site through the proxy.
type clientPath string

const (
	plain           clientPath = "plain"
	viaConnect80    clientPath = "cleartext CONNECT"
	viaInterception clientPath = "intercepted h1"
)

var rawPaths = []clientPath{plain, viaConnect80, viaInterception}

// open opens a connection for raw requests.
func (b *testProxy) open(w clientPath) net.Conn {
	b.t.Helper()
	switch w {
	case plain:
		return b.dial()
	case viaConnect80:
		return b.connect(host + ":80")
	default:
		return b.secure(b.connect(host+":443"), host, "http/1.1")
	}
}

// line is the request target: with an absolute URL or without.
func (w clientPath) line(path string) string {
	if w == plain {
		return "http://" + host + path
	}
	return path
}

// sendRaw writes a request and reads its response.
func sendRaw(t *testing.T, conn net.Conn, request string) (*http.Response, string) {
	t.Helper()
	_, err := io.WriteString(conn, request)
	must(t, err)
	return readResponse(t, conn, "GET")
}

func readResponse(t *testing.T, conn net.Conn, method string) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body of a %d: %v", resp.StatusCode, err)
	}
	return resp, string(body)
}

// client is a Go client of the proxy, over HTTP/1 or HTTP/2.
func (b *testProxy) client(h2 bool) *http.Client {
	tr := &http.Transport{
		Proxy:              http.ProxyURL(parseURL("http://" + b.addr)),
		TLSClientConfig:    &tls.Config{RootCAs: b.clientRoots()},
		ForceAttemptHTTP2:  h2,
		DisableCompression: true,
	}
	b.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr, Timeout: cmp.Or(b.patience, time.Minute),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// eventually waits until ok, which another goroutine brings about.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.After(within)
	for !ok() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func parseURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// originRootsOnly are the roots of a client that does not trust the proxy's CA.
func originRootsOnly() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(originCA().PEM())
	return pool
}
