package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const pool = `
breaker: {failures: 3, pause: 30s}
retry: {base: 500ms}
sites:
  - host: pool.test
    backends: ["http://a.test", "http://b.test", "http://c.test"]
    balance: %s
    limits: [%s]
`

func TestBackendsShareTheWorkAndEachHasItsOwnMeters(t *testing.T) {
	for _, balance := range []string{"adaptive", "round-robin", "least-loaded"} {
		var mu sync.Mutex
		hosts := map[string]int{}
		sites := func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			hosts[r.Host]++
			mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
		bubble(t, sites, fmt.Sprintf(pool, balance, "{requests: 10, per: 1m}"), func(w *bubbleProxy) {
			var all sync.WaitGroup
			for range 60 {
				c := w.client()
				all.Go(func() {
					if a := w.get(c, "http://pool.test/"); a.status != 200 || a.header.Get("Abide-Site") != "pool.test" {
						t.Errorf("%d %v", a.status, a.header)
					}
				})
			}
			all.Wait()
			if took := time.Since(w.began); took < time.Minute || took > 65*time.Second {
				t.Errorf("%s: 60 at 3 × 10 per minute took %v", balance, took)
			}
			for _, host := range []string{"a.test", "b.test", "c.test"} {
				if hosts[host] != 20 {
					t.Errorf("%s: %v", balance, hosts)
				}
			}
		})
	}
}

func TestABackendThatFailsNeverTouchesTheOthers(t *testing.T) {
	var bad atomic.Int64
	down := atomic.Bool{}
	down.Store(true)
	sites := func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		if r.Host == "b.test" {
			bad.Add(1)
			if down.Load() {
				rw.WriteHeader(502)
			}
		}
	}
	bubble(t, sites, fmt.Sprintf(pool, "round-robin", ""), func(w *bubbleProxy) {
		c := w.client()
		for i := range 200 {
			began := time.Now()
			if a := w.get(c, "http://pool.test/"); a.status != 200 {
				t.Fatalf("request %d: %d", i, a.status)
			}
			if took := time.Since(began); took > 400*time.Millisecond {
				t.Errorf("request %d took %v: it waited for a backend that fails", i, took)
			}
		}
		if n := bad.Load(); n < 3 || n > 5 {
			t.Errorf("the backend that is down was asked %d times", n)
		}
		open := 0
		for _, b := range w.server.Breakers() {
			if b.Site == "pool.test" && b.Backend == "http://b.test" && b.State == "open" {
				open++
			}
		}
		if open != 1 {
			t.Errorf("%+v", w.server.Breakers())
		}
		down.Store(false)
		time.Sleep(31 * time.Second)
		before := bad.Load()
		for range 30 {
			w.get(c, "http://pool.test/")
		}
		if bad.Load()-before < 8 {
			t.Errorf("it is back, and was asked %d of 30 times", bad.Load()-before)
		}
	})
}

func TestABackendThatRefusesIsLeftAloneAndTheOthersAreNot(t *testing.T) {
	var refused atomic.Int64
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.Host == "c.test" {
			refused.Add(1)
			rw.Header().Set("Retry-After", "600")
			rw.WriteHeader(429)
		}
	}
	bubble(t, sites, fmt.Sprintf(pool, "round-robin", ""), func(w *bubbleProxy) {
		c := w.client()
		for range 50 {
			if a := w.get(c, "http://pool.test/"); a.status != 200 || a.at > time.Minute {
				t.Fatalf("%d after %v", a.status, a.at)
			}
		}
		if n := refused.Load(); n != 1 {
			t.Errorf("%d refusals", n)
		}
	})
}

func TestWhenAllBackendsAreDownAClientIsToldAtOnce(t *testing.T) {
	bubble(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(502) }, fmt.Sprintf(pool, "adaptive", ""), func(w *bubbleProxy) {
		c := w.client()
		for range 10 {
			w.get(c, "http://pool.test/", "Abide-Max-Wait", "1s")
		}
		asked := w.asked.Load()
		a := w.get(c, "http://pool.test/")
		if a.status != 503 || !strings.Contains(a.body, "urn:abide:breaker") || w.asked.Load() != asked {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestARedirectOfABackendStaysAtTheSite(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			rw.Header().Set("Location", "http://b.test/next?x=1")
		case "/away":
			rw.Header().Set("Location", "http://elsewhere.test/")
		default:
			return
		}
		rw.WriteHeader(302)
	}
	bubble(t, sites, fmt.Sprintf(pool, "round-robin", ""), func(w *bubbleProxy) {
		c := w.client()
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if a := w.get(c, "http://pool.test/"); a.header.Get("Location") != "http://pool.test/next?x=1" {
			t.Errorf("%v", a.header)
		}
		if a := w.get(c, "http://pool.test/away"); a.header.Get("Location") != "http://elsewhere.test/" {
			t.Errorf("%v", a.header)
		}
	})
}

func TestAReloadChangesTheBackendsOfWhatWaits(t *testing.T) {
	var last atomic.Value
	sites := func(_ http.ResponseWriter, r *http.Request) { last.Store(r.Host) }
	const one = "sites:\n  - {host: pool.test, backends: [\"http://%s.test\"], limits: [{requests: 1, per: 1h}]}\n"
	bubble(t, sites, "queue: {wait: 2h}\n"+fmt.Sprintf(one, "a"), func(w *bubbleProxy) {
		w.get(w.client(), "http://pool.test/")
		done := make(chan clientResult, 1)
		go func() { done <- w.get(w.client(), "http://pool.test/") }()
		synctest.Wait()
		must(t, w.server.Reload(w.policy("queue: {wait: 2h}\n"+fmt.Sprintf(one, "b"))))
		if a := <-done; a.status != 200 || a.at > time.Minute || last.Load() != "b.test" {
			t.Errorf("%d after %v, by %v", a.status, a.at, last.Load())
		}
	})
}
