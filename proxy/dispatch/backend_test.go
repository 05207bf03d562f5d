package dispatch_test

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
		run(t, sites, fmt.Sprintf(pool, balance, "{requests: 10, per: 1m}"), func(w rig) {
			var all sync.WaitGroup
			for range 60 {
				all.Go(func() {
					if a := w.Get("http://pool.test/"); a.Status != 200 || a.Site != "pool.test" {
						t.Errorf("%d %v", a.Status, a.Header)
					}
				})
			}
			all.Wait()
			if took := time.Since(w.Began); took < time.Minute || took > 65*time.Second {
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
	run(t, sites, fmt.Sprintf(pool, "round-robin", ""), func(w rig) {
		for i := range 200 {
			began := time.Now()
			if a := w.Get("http://pool.test/"); a.Status != 200 {
				t.Fatalf("request %d: %d", i, a.Status)
			}
			if took := time.Since(began); took > 400*time.Millisecond {
				t.Errorf("request %d took %v: it waited for a backend that fails", i, took)
			}
		}
		if n := bad.Load(); n < 3 || n > 12 { // single requests try it after about a second each, too
			t.Errorf("the backend that is down was asked %d times", n)
		}
		open := 0
		for _, b := range w.Breakers() {
			if b.Site == "pool.test" && b.Backend == "http://b.test" && b.State == "open" {
				open++
			}
		}
		if open != 1 {
			t.Errorf("%+v", w.Breakers())
		}
		down.Store(false)
		time.Sleep(31 * time.Second)
		before := bad.Load()
		for range 30 {
			w.Get("http://pool.test/")
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
	run(t, sites, fmt.Sprintf(pool, "round-robin", ""), func(w rig) {
		for range 50 {
			if a := w.Get("http://pool.test/"); a.Status != 200 || a.At > time.Minute {
				t.Fatalf("%d after %v", a.Status, a.At)
			}
		}
		if n := refused.Load(); n != 1 {
			t.Errorf("%d refusals", n)
		}
	})
}

func TestWhenAllBackendsAreDownAClientIsToldAtOnce(t *testing.T) {
	run(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(502) }, fmt.Sprintf(pool, "adaptive", ""), func(w rig) {
		for range 10 {
			w.Get("http://pool.test/", "Abide-Max-Wait", "1s")
		}
		asked := w.Asked.Load()
		a := w.Get("http://pool.test/")
		if a.Status != 503 || !strings.Contains(a.Body, "urn:abide:breaker") || w.Asked.Load() != asked {
			t.Errorf("%d %s", a.Status, a.Body)
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
	run(t, sites, fmt.Sprintf(pool, "round-robin", ""), func(w rig) {
		if a := w.Get("http://pool.test/"); a.Header.Get("Location") != "http://pool.test/next?x=1" {
			t.Errorf("%v", a.Header)
		}
		if a := w.Get("http://pool.test/away"); a.Header.Get("Location") != "http://elsewhere.test/" {
			t.Errorf("%v", a.Header)
		}
	})
}

func TestAReloadChangesTheBackendsOfWhatWaits(t *testing.T) {
	var last atomic.Value
	sites := func(_ http.ResponseWriter, r *http.Request) { last.Store(r.Host) }
	const one = "sites:\n  - {host: pool.test, backends: [\"http://%s.test\"], limits: [{requests: 1, per: 1h}]}\n"
	run(t, sites, "queue: {wait: 2h}\n"+fmt.Sprintf(one, "a"), func(w rig) {
		w.Get("http://pool.test/")
		done := make(chan result, 1)
		go func() { done <- w.Get("http://pool.test/") }()
		synctest.Wait()
		w.Reload("queue: {wait: 2h}\n" + fmt.Sprintf(one, "b"))
		if a := <-done; a.Status != 200 || a.At > time.Minute || last.Load() != "b.test" {
			t.Errorf("%d after %v, by %v", a.Status, a.At, last.Load())
		}
	})
}
