package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// newProxyBehind starts a proxy whose next hop is hop, with a user name and secret.
func newProxyBehind(t *testing.T, hop *testProxy, user string) *testProxy {
	t.Helper()
	b := &testProxy{t: t, log: &syncBuffer{}}
	b.start(nil, "egress:\n  ports: any\n  roots: "+hop.roots+"\n  proxy: 'http://"+user+hop.addr+"'", "intercept: all")
	return b
}

func TestEverythingGoesThroughTheNextHop(t *testing.T) {
	hop := newTestProxy(t, "access: {clients: [{name: front, secret: hunter2}]}", "intercept: none")
	var seen sync.Map
	hop.handle(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(strings.Join(r.Header["Proxy-Authorization"], ""), true)
		io.WriteString(w, "from "+r.Host)
	})
	front := newProxyBehind(t, hop, "front:hunter2@")
	for _, a := range protocolClients {
		resp, body, err := a.fetch(front, "GET", "/", nil)
		must(t, err)
		if resp.StatusCode != 200 || body != "from "+host {
			t.Errorf("over %s: %d %q", a.name, resp.StatusCode, body)
		}
	}
	if hop.served.Load() != int64(len(protocolClients)) {
		t.Errorf("%d requests passed the hop", hop.served.Load())
	}
	if _, leaked := seen.Load(""); !leaked || strings.Contains(front.log.String()+hop.log.String(), "hunter2") {
		t.Error("the hop's secret went further than the hop")
	}

	wrong := newProxyBehind(t, hop, "front:wrong@")
	for _, a := range protocolClients {
		resp, body, err := a.fetch(wrong, "GET", "/", nil)
		must(t, err)
		if resp.StatusCode != 502 {
			t.Errorf("over %s with a wrong secret: %d %q", a.name, resp.StatusCode, body)
		}
		if strings.Contains(body, "wrong") {
			t.Error("the secret is in the answer")
		}
	}
}

func TestMetadataIsRefusedBehindANextHopToo(t *testing.T) {
	hop := newTestProxy(t)
	front := newProxyBehind(t, hop, "")
	for _, request := range []string{
		"GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://metadata.google.internal/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if resp, _ := sendRaw(t, front.dial(), request); resp.StatusCode != 403 {
			t.Errorf("%.40q: %d", request, resp.StatusCode)
		}
	}
}

func TestAnEmptyPostIsSentWithoutABody(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			t.Errorf("length %d, %v", r.ContentLength, r.TransferEncoding)
		}
	})
	for _, a := range protocolClients {
		resp, _, err := a.fetch(b, "POST", "/", http.NoBody)
		must(t, err)
		if resp.StatusCode != 200 {
			t.Errorf("over %s: %d", a.name, resp.StatusCode)
		}
	}
}

func TestAConnectionThatTheClientClosesIsTheClientsAffair(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		if r.Close || r.Header.Get("Connection") != "" {
			t.Error("the origin was told to close")
		}
	})
	for range 3 {
		resp, _ := sendRaw(t, b.dial(), "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
		if resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
		resp, _ = sendRaw(t, b.dial(), "GET http://api.test/ HTTP/1.0\r\n\r\n")
		if resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if n := b.dialed.Load(); n != 1 {
		t.Errorf("%d connections to the origin", n)
	}
}
