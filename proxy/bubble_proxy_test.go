package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// pipeListener is a network with one listener, in memory, for a proxy in a bubble with fake
// time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (m *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.conns <- far:
		return near, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *pipeListener) Close() error   { m.once.Do(func() { close(m.done) }); return nil }
func (m *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

// bubbleProxy is a proxy with its sites and clients, in a bubble with fake time.
type bubbleProxy struct {
	fault   atomic.Bool // a request that would be sent panics
	t       *testing.T
	server  *Server
	front   *pipeListener
	back    *pipeListener
	sites   http.HandlerFunc
	dialed  func(host string) error // called before each connection to a site; nil: not called
	limited bool                    // bytes are taken from the limits of bytes of the first request of a connection
	log     syncBuffer
	began   time.Time
	asked   atomic.Int64 // requests that have reached a site
	stop    func()
	mu      sync.Mutex
	clients []*http.Transport // guarded by mu
	yaml    string
}

// bubble runs a test in fake time. sites answers for every host.
func bubble(t *testing.T, sites http.HandlerFunc, yaml string, test func(w *bubbleProxy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &bubbleProxy{t: t, front: newPipeListener(), back: newPipeListener(), sites: sites, began: time.Now(), yaml: yaml}
		origin := &http.Server{ErrorLog: quietLog(), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.asked.Add(1)
			w.sites(rw, r)
		})}
		var running sync.WaitGroup
		running.Go(func() { origin.Serve(w.back) })
		authority, err := ca.Open("", ca.Options{})
		must(t, err)
		log := logrus.New()
		log.SetOutput(&w.log)
		w.server, err = New(dispatch.Options{Policy: w.policy(yaml), Metrics: metrics.New(100), Log: log, Upstream: w.reach}, authority)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() { w.server.Serve(ctx, w.front) })
		w.stop = cancel
		test(w)
		for _, c := range w.clients {
			c.CloseIdleConnections()
		}
		cancel()
		synctest.Wait()
		origin.Close()
		running.Wait()
	})
}

func (w *bubbleProxy) dial(ctx context.Context, host string, _ uint16) (net.Conn, error) {
	if w.dialed != nil {
		if err := w.dialed(host); err != nil {
			return nil, err
		}
	}
	conn, err := w.back.dial(ctx)
	if budget, ok := ctx.Value(upstream.MeterKey{}).(credits); ok && w.limited && err == nil {
		return limitedConn{conn, budget}, nil
	}
	return conn, err
}

// credits is what gives connections their bytes.
type credits interface {
	Credit(done <-chan struct{}, since *time.Time, n int, arrived func() (unread, spare int64)) (int, error)
}

// limitedConn takes what passes from a budget, like a connection that a Dialer makes.
type limitedConn struct {
	net.Conn
	budget credits
}

func (c limitedConn) Read(p []byte) (int, error)  { return c.passed(c.Conn.Read(p)) }
func (c limitedConn) Write(p []byte) (int, error) { return c.passed(c.Conn.Write(p)) }

func (c limitedConn) passed(n int, err error) (int, error) {
	var since time.Time
	for left := n; left > 0 && err == nil; {
		var credit int
		credit, err = c.budget.Credit(nil, &since, left, nil)
		left -= credit
	}
	return n, err
}

// reload changes the configuration. No request may be in flight if the way to sites changes.
func (w *bubbleProxy) reload(yaml string) {
	w.t.Helper()
	must(w.t, w.server.Reload(w.policy(yaml)))
}

// reach makes the proxy connect to the sites of the bubble. It is called for each transport.
func (w *bubbleProxy) reach(t *upstream.Transport) http.RoundTripper {
	t.Dial = w.dial
	return faultyTransport{t, w}
}

// faultyTransport panics instead of sending while bubbleProxy.fault is set.
type faultyTransport struct {
	*upstream.Transport
	world *bubbleProxy
}

func (f faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.world.fault.Load() {
		panic("a fault")
	}
	return f.Transport.RoundTrip(r)
}

// idle checks that no request has left anything behind at a site.
func (w *bubbleProxy) idle(site string) {
	w.t.Helper()
	synctest.Wait()
	_, held := w.server.Gate().Len()
	flying := w.server.Gate().Explain(queue.Request{Site: site}).InFlight
	if kept := w.server.forwarder.replayBytes.Load(); held != 0 || kept != 0 || flying != 0 {
		w.t.Errorf("%d requests are held, %d bytes kept, %d requests in flight", held, kept, flying)
	}
	if n := w.server.Sizes()["at backends"]; n != 0 {
		w.t.Errorf("%d requests are in flight at backends", n)
	}
}

func (w *bubbleProxy) policy(yaml string) *policy.Policy {
	w.t.Helper()
	usual := "timeouts: {idle: 5m, answer: 1h, drain: 30s}\n"
	if strings.Contains(yaml, "timeouts:") {
		usual = ""
	}
	p, err := policy.Load(policy.Source{
		Path: "world.yaml", Data: []byte("data: none\n" + usual + yaml),
		Lookup: func(string) (string, bool) { return "", false },
	})
	must(w.t, err)
	return p
}

// client is a crawler, which does not know limits.
func (w *bubbleProxy) client() *http.Client {
	tr := &http.Transport{
		Proxy:       func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") },
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.front.dial(ctx) },
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = append(w.clients, tr)
	return &http.Client{Transport: tr}
}

// clientResult is the response that a client got, and when.
type clientResult struct {
	status int
	body   string
	header http.Header
	at     time.Duration // since the bubble began
}

func (w *bubbleProxy) get(c *http.Client, u string, headers ...string) clientResult {
	w.t.Helper()
	return w.do(w.t.Context(), c, "GET", u, nil, headers...)
}

func (w *bubbleProxy) do(ctx context.Context, c *http.Client, method, u string, body io.Reader, headers ...string) clientResult {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, u, body)
	must(w.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		return clientResult{body: err.Error(), at: time.Since(w.began)}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Errorf("reading an answer: %v", err)
	}
	return clientResult{resp.StatusCode, string(text), resp.Header, time.Since(w.began)}
}

func echoing(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(rw, "%s %s %s", r.Method, r.URL.Path, body)
}

// elapse lets fake time pass in a bubble, whose clock begins in the year 2000. Elsewhere it
// panics.
func elapse(d time.Duration) {
	if time.Now().Year() >= 2026 {
		panic("elapse is for bubbles")
	}
	time.Sleep(d)
}
