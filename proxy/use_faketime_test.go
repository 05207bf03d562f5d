package proxy

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
