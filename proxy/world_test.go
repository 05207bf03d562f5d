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

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// memory is a network of one listener, so that a whole proxy lives in a bubble
// whose clock jumps.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), done: make(chan struct{})} }

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
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

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.done) }); return nil }
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

// world is a proxy, the sites behind it and their clients, in a bubble.
type world struct {
	t       *testing.T
	server  *Server
	front   *memory
	back    *memory
	sites   http.HandlerFunc
	dialed  func(host string) error // asked before each connection to a site, if set
	log     syncBuffer
	began   time.Time
	asked   atomic.Int64 // requests that reached a site
	stop    func()
	mu      sync.Mutex
	clients []*http.Transport // guarded by mu
	yaml    string
}

// bubble runs a test in fake time. sites answers for every host.
func bubble(t *testing.T, sites http.HandlerFunc, yaml string, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, front: newMemory(), back: newMemory(), sites: sites, began: time.Now(), yaml: yaml}
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
		w.server, err = New(Options{Policy: w.policy(yaml), CA: authority, Metrics: metrics.New(100), Log: log})
		must(t, err)
		w.server.state.Load().upstream.Dial = w.dial
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

func (w *world) dial(ctx context.Context, host string, _ uint16) (net.Conn, error) {
	if w.dialed != nil {
		if err := w.dialed(host); err != nil {
			return nil, err
		}
	}
	return w.back.dial(ctx)
}

// reload changes the configuration. The sites stay in the bubble; where another way
// to them is made, nothing may be on its way to one at this moment.
func (w *world) reload(yaml string) {
	w.t.Helper()
	was := w.server.state.Load().stack
	must(w.t, w.server.Reload(w.policy(yaml)))
	if now := w.server.state.Load(); now.stack != was {
		now.upstream.Dial = w.dial
		w.server.state.Store(now) // so that who loads it sees that
	}
}

// idle checks that no request has left anything behind at a site.
func (w *world) idle(site string) {
	w.t.Helper()
	synctest.Wait()
	_, held := w.server.gate.Len()
	flying := w.server.gate.Explain(queue.Request{Site: site}).InFlight
	if kept := w.server.kept.Load(); held != 0 || kept != 0 || flying != 0 {
		w.t.Errorf("%d requests are held, %d bytes kept, %d requests in flight", held, kept, flying)
	}
	w.server.loads.known.Range(func(name, one any) bool {
		if n := one.(*load).flying.Load(); n != 0 {
			w.t.Errorf("%d requests are in flight at %v", n, name)
		}
		return true
	})
}

func (w *world) policy(yaml string) *policy.Policy {
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

// client is one crawler, which has no idea of limits.
func (w *world) client() *http.Client {
	tr := &http.Transport{
		Proxy:       func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") },
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.front.dial(ctx) },
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = append(w.clients, tr)
	return &http.Client{Transport: tr}
}

// answer is what a crawler got, and when.
type got struct {
	status int
	body   string
	header http.Header
	at     time.Duration // since the world began
}

func (w *world) get(c *http.Client, u string, headers ...string) got {
	w.t.Helper()
	return w.do(w.t.Context(), c, "GET", u, nil, headers...)
}

func (w *world) do(ctx context.Context, c *http.Client, method, u string, body io.Reader, headers ...string) got {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, u, body)
	must(w.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		return got{body: err.Error(), at: time.Since(w.began)}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Errorf("reading an answer: %v", err)
	}
	return got{resp.StatusCode, string(text), resp.Header, time.Since(w.began)}
}

func echoing(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(rw, "%s %s %s", r.Method, r.URL.Path, body)
}

// elapse lets time pass in a bubble, whose clock begins in the year 2000. Elsewhere it
// is no way to wait.
func elapse(d time.Duration) {
	if time.Now().Year() >= 2026 {
		panic("elapse is for bubbles")
	}
	time.Sleep(d)
}
