package dispatch_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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
				run(t, sites, "", func(w rig) {
					a := w.Do(w.T.Context(), "POST", "http://site.test/", "a body")
					if a.Status != 200 || a.Body != "POST a body" || a.Attempts != 2 {
						t.Errorf("%d %q %v", a.Status, a.Body, a.Header)
					}
					if a.At < c.least || a.At > c.most {
						t.Errorf("after %v", a.At)
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
	run(t, sites, "retry: {attempts: 5}\n", func(w rig) {
		for range 20 {
			if a := w.Get("http://site.test/"); a.Status != 200 {
				t.Errorf("GET: %d", a.Status)
			}
		}
		before := w.Asked.Load()
		if a := w.Do(w.T.Context(), "POST", "http://site.test/", "x"); a.Status != 502 || w.Asked.Load() != before+1 {
			t.Errorf("POST: %d after %d requests", a.Status, w.Asked.Load()-before)
		}
		n = 0
		if a := w.Do(w.T.Context(), "POST", "http://site.test/", "x", "Idempotency-Key", "k"); a.Status != 200 {
			t.Errorf("POST with a key: %d", a.Status)
		}
		n = 0
		if a := w.Get("http://site.test/", "Abide-Retry", "none"); a.Status != 502 {
			t.Errorf("GET that wants none: %d", a.Status)
		}
	})
	t.Run("and an outage ends with the site's own answer", func(t *testing.T) {
		run(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }, "", func(w rig) {
			a := w.Get("http://site.test/")
			if a.Status != 503 || w.Asked.Load() != 5 {
				t.Errorf("%d after %d requests", a.Status, w.Asked.Load())
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
	run(t, sites, "retry: {attempts: 5}\nbreaker: {failures: 30}\n", func(w rig) {
		var all sync.WaitGroup
		var good, bad, item atomic.Int64
		for range 20 {
			all.Go(func() {
				for range 50 {
					switch a := w.Get("http://site.test/"); {
					case a.Status == 200:
						good.Add(1)
					case a.Header.Get("Proxy-Status") != "":
						item.Add(1)
					case a.Attempts == 6:
						bad.Add(1)
					default:
						t.Errorf("%d %v", a.Status, a.Header)
					}
				}
			})
		}
		all.Wait()
		// One in 64 fails six times. Thirty failures in a row are one in a million.
		if bad.Load() > 35 || item.Load() > 0 || good.Load() < 965 {
			t.Errorf("%d good, %d failed six times, %d refused by the breaker", good.Load(), bad.Load(), item.Load())
		}
		t.Logf("%d good, %d failed six times, %d refused by the breaker, %d requests, in %v", good.Load(), bad.Load(), item.Load(), w.Asked.Load(), time.Since(w.Began))
	})
}
