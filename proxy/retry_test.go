package proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
				bubble(t, sites, "", func(w *bubbleProxy) {
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
	bubble(t, sites, "retry: {attempts: 5}\n", func(w *bubbleProxy) {
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
		bubble(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }, "", func(w *bubbleProxy) {
			a := w.get(w.client(), "http://site.test/")
			if a.status != 503 || w.asked.Load() != 5 {
				t.Errorf("%d after %d requests", a.status, w.asked.Load())
			}
		})
	})
}

func TestHalfOfAllAttemptsFail(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		<-time.After(50 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if chance.IntN(2) == 0 {
			rw.WriteHeader([]int{502, 503, 504}[chance.IntN(3)])
		}
	}
	// Ten failures in a row, which open the breaker, are not rare among 2,000 attempts.
	bubble(t, sites, "retry: {attempts: 5}\nbreaker: {failures: 30}\n", func(w *bubbleProxy) {
		var all sync.WaitGroup
		var good, bad, own atomic.Int64
		for range 20 {
			c := w.client()
			all.Go(func() {
				for range 50 {
					switch a := w.get(c, "http://site.test/"); {
					case a.status == 200:
						good.Add(1)
					case a.header.Get("Proxy-Status") != "":
						own.Add(1)
					case a.header.Get("Abide-Attempts") == "6":
						bad.Add(1)
					default:
						t.Errorf("%d %v", a.status, a.header)
					}
				}
			})
		}
		all.Wait()
		// One in 64 fails six times. Thirty failures in a row are one in a million.
		if bad.Load() > 35 || own.Load() > 0 || good.Load() < 965 {
			t.Errorf("%d good, %d failed six times, %d refused by the breaker", good.Load(), bad.Load(), own.Load())
		}
		t.Logf("%d good, %d failed six times, %d refused by the breaker, %d requests, in %v", good.Load(), bad.Load(), own.Load(), w.asked.Load(), time.Since(w.began))
	})
}
