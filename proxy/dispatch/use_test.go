package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/proxy/upstream"
)

func TestAHundredRequestsAtTenPerSecondTakeTenSeconds(t *testing.T) {
	for _, as := range []string{"as: paced", "as: bucket, burst: 1"} {
		run(t, echoing, "sites:\n  - {host: site.test, limits: [{requests: 10, per: 1s, "+as+"}]}\n", func(w rig) {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if a := w.Get("http://site.test/"); a.Status != 200 {
						t.Errorf("%d", a.Status)
					}
				})
			}
			all.Wait()
			if took := time.Since(w.Began); took < 9900*time.Millisecond || took > 10100*time.Millisecond {
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
	run(t, sites, "sites:\n  - {host: site.test, limits: [{concurrency: 4}]}\n", func(w rig) {
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() { w.Get("http://site.test/") })
		}
		all.Wait()
		if took := time.Since(w.Began); most.Load() != 4 || took > 13*time.Second {
			t.Errorf("%d at once, %v in all", most.Load(), took)
		}
	})
}

// windowSite allows n requests per window by its own clock, and refuses others. A request
// counts when it arrives.
type windowSite struct {
	as      string
	n       int
	per     time.Duration
	way     func() time.Duration // how long a request takes to the site
	mu      sync.Mutex
	times   []time.Time
	bucket  *rate.Limiter
	refused int
}

func (s *windowSite) serve(rw http.ResponseWriter, _ *http.Request) {
	time.Sleep(s.way())
	ok := s.allows(time.Now())
	time.Sleep(30 * time.Millisecond)
	if !ok {
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(429)
	}
}

func (s *windowSite) allows(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := true
	switch s.as {
	case "bucket":
		ok = s.bucket.AllowN(now, 1)
	case "rolling":
		ok = s.since(now.Add(-s.per)) < s.n
	case "fixed":
		ok = s.since(now.Truncate(s.per).Add(-1)) < s.n
	}
	if !ok {
		s.refused++
		return false
	}
	s.times = append(s.times, now)
	return true
}

func (s *windowSite) since(from time.Time) (n int) {
	for _, t := range s.times {
		if t.After(from) {
			n++
		}
	}
	return n
}

func TestALimitIsUsedToTheFullWithoutARefusal(t *testing.T) {
	const n, per, windows = 300, time.Minute, 8
	for _, as := range []string{"rolling", "fixed", "bucket"} {
		for _, clients := range []int{1, 20, 200} {
			t.Run(fmt.Sprintf("%s, %d clients", as, clients), func(t *testing.T) {
				chance := rand.New(rand.NewPCG(1, 2))
				s := &windowSite{as: as, n: n, per: per, bucket: rate.NewLimiter(rate.Every(per/n), 20)}
				s.way = func() time.Duration {
					s.mu.Lock()
					defer s.mu.Unlock()
					return time.Duration(chance.Int64N(int64(80 * time.Millisecond)))
				}
				rule := "as: " + as
				if as == "bucket" {
					rule += ", burst: 20"
				}
				run(t, s.serve, fmt.Sprintf("sites:\n  - {host: site.test, limits: [{requests: %d, per: 1m, %s}]}\n", n, rule), func(w rig) {
					// Whole windows, from the start of one.
					time.Sleep(time.Until(time.Now().Truncate(per).Add(per)))
					begun := time.Now()
					var all sync.WaitGroup
					for range clients {
						all.Go(func() {
							for time.Since(begun) < windows*per-time.Second {
								if a := w.Get("http://site.test/"); a.Status != 200 {
									t.Errorf("%d %s", a.Status, a.Body)
									return
								}
							}
						})
					}
					time.Sleep(windows*per - time.Millisecond)
					synctest.Wait()
					s.mu.Lock()
					used, refused := len(s.times), s.refused
					s.mu.Unlock()
					t.Logf("%d of %d used, %d refused", used, windows*n, refused)
					if refused != 0 || used < windows*n*99/100 || used > windows*n+20 {
						t.Errorf("%d of %d used, %d refused", used, windows*n, refused)
					}
					all.Wait()
				})
			})
		}
	}
}

func TestASlowConnectionBreaksNoLimit(t *testing.T) {
	for _, as := range []string{"rolling", "fixed", "bucket"} {
		s := &windowSite{as: as, n: 10, per: time.Second, way: func() time.Duration { return 0 }, bucket: rate.NewLimiter(10, 10)}
		run(t, s.serve, "sites:\n  - {host: site.test, limits: [{requests: 10, per: 1s, as: "+as+"}]}\n", func(w rig) {
			w.Send = func(r *http.Request) (*http.Response, error) {
				time.Sleep(150 * time.Millisecond) // as if each request needed a new connection
				r.Context().Value(upstream.SenderKey{}).(interface{ Sending() }).Sending()
				return w.Answer(r)
			}
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					for range 10 {
						w.Get("http://site.test/")
					}
				})
			}
			all.Wait()
			if s.refused != 0 {
				t.Errorf("%s: %d refused", as, s.refused)
			}
			if took := time.Since(w.Began); took > 13*time.Second {
				t.Errorf("%s: %v", as, took)
			}
		})
	}
}
