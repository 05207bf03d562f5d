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
	sites   http.HandlerFunc
	log     syncBuffer
	began   time.Time
	asked   atomic.Int64 // requests that reached a site
	stop    func()
	clients []*http.Transport
	yaml    string
}

// bubble runs a test in fake time. sites answers for every host.
func bubble(t *testing.T, sites http.HandlerFunc, yaml string, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, front: newMemory(), sites: sites, began: time.Now(), yaml: yaml}
		back := newMemory()
		origin := &http.Server{ErrorLog: quietLog(), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.asked.Add(1)
			w.sites(rw, r)
		})}
		var running sync.WaitGroup
		running.Go(func() { origin.Serve(back) })
		authority, err := ca.Open("", ca.Options{})
		must(t, err)
		log := logrus.New()
		log.SetOutput(&w.log)
		w.server, err = New(Options{Policy: w.policy(yaml), CA: authority, Metrics: metrics.New(100), Log: log})
		must(t, err)
		w.server.state.Load().upstream.Dial = func(ctx context.Context, _ string, _ uint16) (net.Conn, error) { return back.dial(ctx) }
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

func (w *world) policy(yaml string) *policy.Policy {
	w.t.Helper()
	p, err := policy.Load(policy.Source{Path: "world.yaml", Data: []byte("data: none\ntimeouts: {idle: 5m, answer: 1h, drain: 30s}\n" + yaml),
		Lookup: func(string) (string, bool) { return "", false }})
	must(w.t, err)
	return p
}

// client is one crawler, which has no idea of limits.
func (w *world) client() *http.Client {
	tr := &http.Transport{
		Proxy:       func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") },
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.front.dial(ctx) },
	}
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

func TestRequestsBeyondALimitWaitForItsWindow(t *testing.T) {
	bubble(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 10, per: 15m}]
`, func(w *world) {
		c := w.client()
		for i := range 25 {
			a := w.get(c, fmt.Sprintf("http://site.test/%d", i))
			if a.status != 200 {
				t.Fatalf("request %d: %d %s", i, a.status, a.body)
			}
			if want := time.Duration(i/10) * 15 * time.Minute; a.at < want || a.at > want+time.Second {
				t.Errorf("request %d was answered after %v, not %v", i, a.at, want)
			}
			if i == 10 && !strings.HasPrefix(a.header.Get("Abide-Wait"), "900.") && !strings.HasPrefix(a.header.Get("Abide-Wait"), "899.") {
				t.Errorf("Abide-Wait: %q", a.header.Get("Abide-Wait"))
			}
		}
		if a := w.get(c, "http://other.test/"); a.header.Get("Abide-Wait") != "0" || a.header.Get("Abide-Site") != "other.test" || a.header.Get("Abide-Attempts") != "1" {
			t.Errorf("%v", a.header)
		}
	})
}

func TestA429IsNeverSeenByTheCrawler(t *testing.T) {
	for _, c := range []struct {
		name       string
		retryAfter func(now time.Time) string
		least      time.Duration
		most       time.Duration
	}{
		{"in seconds", func(time.Time) string { return "30" }, 30 * time.Second, 31 * time.Second},
		{"in fractions of a second", func(time.Time) string { return "0.5" }, 500 * time.Millisecond, time.Second},
		{"as a date", func(now time.Time) string { return now.Add(time.Minute).UTC().Format(http.TimeFormat) }, 59 * time.Second, 62 * time.Second},
		{"not at all", func(time.Time) string { return "" }, 500 * time.Millisecond, 2 * time.Second},
	} {
		for _, status := range []int{429, 503} {
			if status == 503 && c.name == "not at all" {
				continue
			}
			t.Run(fmt.Sprintf("%d %s", status, c.name), func(t *testing.T) {
				refused := false
				sites := func(rw http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if !refused {
						refused = true
						if text := c.retryAfter(time.Now()); text != "" {
							rw.Header().Set("Retry-After", text)
						}
						rw.WriteHeader(status)
						return
					}
					fmt.Fprintf(rw, "%s %s", r.Method, body)
				}
				bubble(t, sites, "", func(w *world) {
					a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", strings.NewReader("a body"))
					if a.status != 200 || a.body != "POST a body" || a.header.Get("Abide-Attempts") != "2" {
						t.Errorf("%d %q %v", a.status, a.body, a.header)
					}
					if a.at < c.least || a.at > c.most {
						t.Errorf("after %v", a.at)
					}
				})
			})
		}
	}
}

func TestFailuresAreTriedAgainWhereThatIsSafe(t *testing.T) {
	n := 0
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if n++; n%2 == 1 {
			rw.WriteHeader(502)
		}
	}
	bubble(t, sites, "retry: {attempts: 5}\n", func(w *world) {
		c := w.client()
		for range 20 {
			if a := w.get(c, "http://site.test/"); a.status != 200 {
				t.Errorf("GET: %d", a.status)
			}
		}
		before := w.asked.Load()
		if a := w.do(w.t.Context(), c, "POST", "http://site.test/", strings.NewReader("x")); a.status != 502 || w.asked.Load() != before+1 {
			t.Errorf("POST: %d after %d requests", a.status, w.asked.Load()-before)
		}
		n = 0
		if a := w.do(w.t.Context(), c, "POST", "http://site.test/", strings.NewReader("x"), "Idempotency-Key", "k"); a.status != 200 {
			t.Errorf("POST with a key: %d", a.status)
		}
		n = 0
		if a := w.get(c, "http://site.test/", "Abide-Retry", "none"); a.status != 502 {
			t.Errorf("GET that wants none: %d", a.status)
		}
	})
	t.Run("and an outage ends with the site's own answer", func(t *testing.T) {
		bubble(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }, "", func(w *world) {
			a := w.get(w.client(), "http://site.test/")
			if a.status != 503 || w.asked.Load() != 5 {
				t.Errorf("%d after %d requests", a.status, w.asked.Load())
			}
		})
	})
}

func TestCR05AHeldRequestWhoseClientLeavesIsGone(t *testing.T) {
	bubble(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 10m}]
`, func(w *world) {
		w.get(w.client(), "http://site.test/first")
		ctx, leave := context.WithCancel(w.t.Context())
		done := make(chan got, 1)
		go func() { done <- w.do(ctx, w.client(), "POST", "http://site.test/leaves", strings.NewReader("x")) }()
		synctest.Wait()
		if holds := w.server.Holds("site.test"); len(holds) != 1 {
			t.Fatalf("%d holds", len(holds))
		}
		leave()
		<-done
		time.Sleep(time.Second)
		synctest.Wait()
		if holds := w.server.Holds("site.test"); len(holds) != 0 {
			t.Errorf("%d holds a second after the client left", len(holds))
		}
		a := w.get(w.client(), "http://site.test/second")
		if a.status != 200 || a.at > 10*time.Minute+time.Second || w.asked.Load() != 2 {
			t.Errorf("%d after %v and %d requests: what the client left was spent", a.status, a.at, w.asked.Load())
		}
	})
}

func TestCF08AReloadPlansWhatWaitsAnew(t *testing.T) {
	const yaml = `
queue: {wait: 2h}
sites:
  - host: site.test
    limits: [{requests: %d, per: 1m}]
`
	bubble(t, echoing, fmt.Sprintf(yaml, 1), func(w *world) {
		var all sync.WaitGroup
		var ok atomic.Int64
		for range 50 {
			c := w.client()
			all.Go(func() {
				if a := w.get(c, "http://site.test/"); a.status == 200 {
					ok.Add(1)
				}
			})
		}
		synctest.Wait()
		if ok.Load() != 1 || len(w.server.Holds("")) != 49 {
			t.Fatalf("%d went, %d wait", ok.Load(), len(w.server.Holds("")))
		}
		must(t, w.server.Reload(w.policy(fmt.Sprintf(yaml, 50))))
		all.Wait()
		if ok.Load() != 50 || w.asked.Load() != 50 || time.Since(w.began) > time.Minute {
			t.Errorf("%d of 50 went, the site was asked %d times, after %v", ok.Load(), w.asked.Load(), time.Since(w.began))
		}
	})
}

func TestCF08ALoweredLimitKeepsWhatWasSpent(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, limits: [{requests: %d, per: 10m}]}\n"
	bubble(t, echoing, fmt.Sprintf(yaml, 5), func(w *world) {
		c := w.client()
		for range 5 {
			w.get(c, "http://site.test/")
		}
		must(t, w.server.Reload(w.policy(fmt.Sprintf(yaml, 3))))
		if a := w.get(c, "http://site.test/"); a.status != 200 || a.at < 10*time.Minute || a.at > 11*time.Minute {
			t.Errorf("%d after %v", a.status, a.at)
		}
	})
}

func TestObserveHoldsNothingAndTellsWhatItWouldHaveHeld(t *testing.T) {
	refuse := false
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if refuse {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		}
	}
	bubble(t, sites, "mode: observe\nsites:\n  - {host: site.test, limits: [{requests: 2, per: 10m}]}\n", func(w *world) {
		c := w.client()
		for i := range 4 {
			a := w.get(c, "http://site.test/")
			if a.status != 200 || a.at > time.Second {
				t.Errorf("request %d: %d after %v", i, a.status, a.at)
			}
			held := a.header.Get("Abide-Would-Limit") == "2 requests per 10m" && strings.HasPrefix(a.header.Get("Abide-Would-Wait"), "600")
			if held != (i >= 2) {
				t.Errorf("request %d: %v", i, a.header)
			}
		}
		refuse = true
		if a := w.get(c, "http://other.test/"); a.status != 429 || a.header.Get("Abide-Attempts") != "1" {
			t.Errorf("a refusal: %d %v", a.status, a.header)
		}
	})
}

func TestStoppingAnswersWhatIsHeld(t *testing.T) {
	bubble(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 10m}]
`, func(w *world) {
		c := w.client()
		w.get(c, "http://site.test/")
		done := make(chan got, 1)
		go func() { done <- w.get(w.client(), "http://site.test/held") }()
		synctest.Wait()
		w.stop()
		a := <-done
		if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "urn:abide:draining") {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		if a.at > 31*time.Second {
			t.Errorf("after %v", a.at)
		}
	})
}

func TestCR12TheQueueIsBounded(t *testing.T) {
	bubble(t, echoing, `
queue: {max: 8, per_site: 5, wait: 1h}
sites:
  - host: "*.test"
    limits: [{requests: 1, per: 10m}]
`, func(w *world) {
		var all sync.WaitGroup
		hold := func(host string) {
			c := w.client()
			all.Go(func() { w.get(c, "http://"+host+"/") })
			synctest.Wait()
		}
		for range 6 { // one goes, five wait
			hold("a.test")
		}
		began := time.Now()
		a := w.get(w.client(), "http://a.test/")
		if a.status != 503 || a.header.Get("Retry-After") == "" || time.Since(began) > time.Second {
			t.Errorf("CR-12 beyond queue.per_site: %d %v", a.status, a.header)
		}
		for range 4 { // one goes, three wait
			hold("b.test")
		}
		if a := w.get(w.client(), "http://b.test/"); a.status != 503 {
			t.Errorf("CR-12 beyond queue.max: %d", a.status)
		}
		if a := w.get(w.client(), "http://c.test/"); a.status != 200 {
			t.Errorf("CR-15 a site that is free: %d", a.status)
		}
		all.Wait()
	})
}

func TestAWaitThatWouldBeTooLongIsRefusedAtOnce(t *testing.T) {
	bubble(t, echoing, `
queue: {wait: 5m}
sites:
  - host: site.test
    limits: [{requests: 1, per: 10m}]
`, func(w *world) {
		c := w.client()
		w.get(c, "http://site.test/")
		for _, wish := range [][]string{nil, {"Abide-Max-Wait", "30s"}} {
			a := w.get(c, "http://site.test/", wish...)
			if a.status != 429 || a.header.Get("Retry-After") != "600" || a.at > time.Second {
				t.Errorf("%d after %v: %v", a.status, a.at, a.header)
			}
			for _, want := range []string{`"urn:abide:wait"`, `"site":"site.test"`, `per 10m`, `"retry_at":"`} {
				if !strings.Contains(a.body, want) {
					t.Errorf("the problem lacks %s: %s", want, a.body)
				}
			}
		}
		if a := w.get(c, "http://site.test/", "Abide-Max-Wait", "soon"); a.status != 400 {
			t.Errorf("a wish that makes no sense: %d", a.status)
		}
	})
}

func TestTheMoreUrgentGoFirst(t *testing.T) {
	var order []string
	var mu sync.Mutex
	sites := func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		order = append(order, r.URL.Path)
		mu.Unlock()
		for name := range r.Header {
			if strings.HasPrefix(name, "Abide-") {
				t.Errorf("the site was told %s", name)
			}
		}
	}
	bubble(t, sites, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 1s, as: paced}]
`, func(w *world) {
		w.get(w.client(), "http://site.test/first")
		var all sync.WaitGroup
		for _, p := range []string{"7", "3", "0"} {
			c := w.client()
			all.Go(func() { w.get(c, "http://site.test/"+p, "Abide-Priority", p) })
			synctest.Wait()
		}
		all.Wait()
		if got := strings.Join(order, ""); got != "/first/0/3/7" {
			t.Errorf("%s", got)
		}
	})
}

func TestAHundredRequestsAtTenPerSecondTakeTenSeconds(t *testing.T) {
	for _, as := range []string{"as: paced", "as: bucket, burst: 1"} {
		bubble(t, echoing, "sites:\n  - {host: site.test, limits: [{requests: 10, per: 1s, "+as+"}]}\n", func(w *world) {
			var all sync.WaitGroup
			for range 100 {
				c := w.client()
				all.Go(func() {
					if a := w.get(c, "http://site.test/"); a.status != 200 {
						t.Errorf("%d", a.status)
					}
				})
			}
			all.Wait()
			if took := time.Since(w.began); took < 9800*time.Millisecond || took > 10100*time.Millisecond {
				t.Errorf("%s: %v", as, took)
			}
		})
	}
}

func TestConcurrencyIsKept(t *testing.T) {
	var flying, most atomic.Int64
	sites := func(_ http.ResponseWriter, r *http.Request) {
		n := flying.Add(1)
		defer flying.Add(-1)
		most.Store(max(most.Load(), n))
		time.Sleep(time.Second)
	}
	bubble(t, sites, "sites:\n  - {host: site.test, limits: [{concurrency: 4}]}\n", func(w *world) {
		var all sync.WaitGroup
		for range 40 {
			c := w.client()
			all.Go(func() { w.get(c, "http://site.test/") })
		}
		all.Wait()
		if took := time.Since(w.began); most.Load() != 4 || took > 11*time.Second {
			t.Errorf("%d at once, %v in all", most.Load(), took)
		}
	})
}

// window is a site that allows N per window and refuses beyond, by its own clock.
type window struct {
	n       int
	per     time.Duration
	rolling bool
	mu      sync.Mutex
	times   []time.Time
	refused int
}

func (s *window) serve(rw http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	from := now.Add(-s.per)
	if !s.rolling {
		from = now.Truncate(s.per).Add(-1)
	}
	used := 0
	for _, t := range s.times {
		if t.After(from) {
			used++
		}
	}
	if used >= s.n {
		s.refused++
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(429)
		return
	}
	s.times = append(s.times, now)
}

func TestALimitIsUsedToTheFullWithoutARefusal(t *testing.T) {
	const per = time.Minute
	for _, as := range []string{"rolling", "fixed"} {
		for _, clients := range []int{1, 10, 200} {
			t.Run(fmt.Sprintf("%s, %d clients", as, clients), func(t *testing.T) {
				s := &window{n: 60, per: per, rolling: as == "rolling"}
				bubble(t, s.serve, fmt.Sprintf("sites:\n  - {host: site.test, limits: [{requests: 60, per: 1m, as: %s}]}\n", as), func(w *world) {
					// Whole windows, from the start of one.
					time.Sleep(time.Until(time.Now().Truncate(per).Add(per)))
					begun := time.Now()
					var all sync.WaitGroup
					for range clients {
						c := w.client()
						all.Go(func() {
							for time.Since(begun) < 10*per-time.Second {
								if a := w.get(c, "http://site.test/"); a.status != 200 {
									t.Errorf("%d %s", a.status, a.body)
									return
								}
							}
						})
					}
					time.Sleep(10*per - time.Millisecond)
					synctest.Wait()
					s.mu.Lock()
					used, refused := len(s.times), s.refused
					s.mu.Unlock()
					if refused != 0 || used < 594 || used > 600 {
						t.Errorf("%d of 600 used, %d refused", used, refused)
					}
					all.Wait()
				})
			})
		}
	}
}
