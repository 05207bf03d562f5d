package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"github.com/elazarl/goproxy"
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

// panicInPipeline panics in the middle of a request with a value that quotes the request.
func panicInPipeline(r *http.Request, _ *goproxy.ProxyCtx) (*http.Request, *http.Response) {
	panic("a fault with " + r.Header.Get("Authorization") + " in it")
}

// scrapeMetrics is the text of the metrics.
func (b *testProxy) scrapeMetrics() string {
	w := httptest.NewRecorder()
	b.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestAFaultOfOursCostsOneRequestAndNoMore(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.server.forwarder.pipeline.OnRequest(goproxy.UrlIs("/explode")).DoFunc(panicInPipeline)
	b.server.forwarder.pipeline.OnRequest(goproxy.ReqConditionFunc(func(r *http.Request, _ *goproxy.ProxyCtx) bool { return r.URL.Path == "/explode" })).DoFunc(panicInPipeline)
	for _, a := range protocolClients {
		resp, _, err := a.fetch(b, "GET", "/explode", nil)
		must(t, err)
		if resp.StatusCode != 500 || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("over %s: %d %v", a.name, resp.StatusCode, resp.Header)
		}
		if resp, _, err := a.fetch(b, "GET", "/", nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("over %s, the next request: %v", a.name, err)
		}
	}
}

func TestNoLeafIsSignedByTheCAThatGoproxyPublishes(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	c := b.secure(b.connect(host+":443"), host)
	leaf := c.ConnectionState().PeerCertificates[0]
	if leaf.CheckSignatureFrom(goproxy.GoproxyCa.Leaf) == nil || bytes.Equal(leaf.AuthorityKeyId, goproxy.GoproxyCa.Leaf.SubjectKeyId) {
		t.Error("the leaf is signed by the published key")
	}
}

// noResolver resolves no name.
type noResolver struct{}

func (noResolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no such host")
}

// hijackable is a recorder whose connection can be hijacked.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	near, far := net.Pipe()
	go func() { io.Copy(io.Discard, far); far.Close() }()
	conn := &clientConn{Conn: near, writes: writeDeadline{stall: 1 << 30}}
	conn.Close() // nothing uses the connection
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}

// FuzzConnectHead checks that a head which net/http accepts is either for a canonical target
// or refused by abide with a 4xx or 5xx.
func FuzzConnectHead(f *testing.F) {
	for _, seed := range []string{
		"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n",
		"CONNECT [::1]:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic YTpi\r\n\r\n",
		"CONNECT user@api.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT :80 HTTP/1.0\r\n\r\n",
		"CONNECT 0x7f.1:80 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"CONNECT ｅ.test:65535 HTTP/1.1\r\nHost: x\r\nVia: 1.1 abide-0\r\n\r\n",
		"GET http://a.test:99999/ HTTP/1.1\r\nHost: b\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	p, err := policy.Load(policy.Source{Path: "fuzz.yaml", Data: []byte("data: none\negress: {ports: any}\nintercept: none\n"), Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		f.Fatal(err)
	}
	authority, err := ca.Open("", ca.Options{})
	if err != nil {
		f.Fatal(err)
	}
	s, err := New(dispatch.Options{Policy: p, Metrics: metrics.New(10), Log: log}, authority)
	if err != nil {
		f.Fatal(err)
	}
	st := s.Current()
	st.Dialer().Guard.Local = false
	st.Dialer().Resolver = noResolver{}
	f.Fuzz(func(t *testing.T, head []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			return
		}
		host, port, bad := policy.ParseHostPort(r.RequestURI, 0)
		if r.Method != http.MethodConnect || (bad == nil && !unreachable(host)) {
			return // a real connection would be made
		}
		w := hijackable{httptest.NewRecorder()}
		s.outer.Handler.ServeHTTP(w, r)
		code := w.Code
		switch {
		case bad != nil && !slices.Contains([]int{400, 505}, code):
			t.Errorf("%q is no authority, and was answered %d", r.RequestURI, code)
		case bad == nil && port != 80 && code < 400:
			t.Errorf("%q was answered %d", r.RequestURI, code)
		}
	})
}

// unreachable tells whether the fuzz target would connect to no address: noResolver resolves
// no name.
func unreachable(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && host != "localhost"
}
