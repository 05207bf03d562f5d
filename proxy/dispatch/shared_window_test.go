package dispatch_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// windowed is a site that announces 20 requests per 5s, all of its routes together. Its windows begin with their first
// request, or by the clock.
type windowed struct {
	byClock bool

	mu      sync.Mutex
	ends    time.Time
	windows []map[string]int // of each window, how many requests each part of the site has had
	refused int
}

func (s *windowed) serve(rw http.ResponseWriter, r *http.Request) {
	elapse(50 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.ends) {
		s.windows = append(s.windows, map[string]int{})
		if s.ends = now.Add(5 * time.Second); s.byClock {
			s.ends = now.Truncate(5 * time.Second).Add(5 * time.Second)
		}
	}
	used, part := s.windows[len(s.windows)-1], strings.Split(r.URL.Path, "/")[1]
	rw.Header().Set("X-RateLimit-Limit", "20")
	rw.Header().Set("X-RateLimit-Reset", strconv.Itoa(int(s.ends.Sub(now).Seconds())+1))
	if used["all"] >= 20 {
		s.refused++
		rw.WriteHeader(429)
		return
	}
	used["all"]++
	used[part]++
	rw.Header().Set("X-RateLimit-Remaining", strconv.Itoa(20-used["all"]))
}

// An urgent client's requests keep what they need of a limit for themselves while the first of their route is alone.
func TestAnUrgentClientOnANewRouteGetsTheNextWindow(t *testing.T) {
	for _, comes := range []time.Duration{2 * time.Second, 22 * time.Second} {
		for _, byClock := range []bool{false, true} {
			s := &windowed{byClock: byClock}
			run(t, s.serve, "", func(w rig) {
				var all sync.WaitGroup
				crawl := func(part, priority string, each int) {
					for c := range 16 {
						all.Go(func() {
							for n := range each {
								w.Get(fmt.Sprintf("http://site.test/%s/%d", part, 100*c+n), "Abide-Client", part, "Abide-Priority", priority)
							}
						})
					}
				}
				crawl("bulk", "6", 15)
				elapse(comes)
				s.mu.Lock()
				next := len(s.windows)
				s.mu.Unlock()
				crawl("news", "1", 2)
				all.Wait()
				if got := s.windows[next]["news"]; got < 16 || s.refused > 0 {
					t.Errorf("after %v, by the clock: %v: %d of %d are urgent, %d refused", comes, byClock, got, s.windows[next]["all"], s.refused)
				}
			})
		}
	}
}

// Less urgent requests go on where there is enough for all, though a new route's urgent ones wait for their first.
func TestANewRouteStopsNobodyWhereEnoughIsLeft(t *testing.T) {
	slow := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-RateLimit-Limit", "1000")
		rw.Header().Set("X-RateLimit-Remaining", "900")
		rw.Header().Set("X-RateLimit-Reset", "60")
		if strings.HasPrefix(r.URL.Path, "/news/") {
			elapse(3 * time.Second)
		}
	}
	run(t, slow, "", func(w rig) {
		for range 20 {
			w.Get("http://site.test/bulk/1", "Abide-Priority", "6")
		}
		news := make(chan struct{})
		go func() {
			defer close(news)
			w.requestTogether(8, func(int) result { return w.Get("http://site.test/news/1", "Abide-Priority", "1") })
		}()
		elapse(time.Second)
		for range 20 {
			if a := w.Get("http://site.test/bulk/1", "Abide-Priority", "6"); a.Waited > 0 {
				t.Fatalf("it waited for %v", a.Waited)
			}
		}
		<-news
	})
}

// What abide's own limit leaves idle is not taken for the length of the site's windows, and no request waits in order to
// learn their end.
func TestAStricterRuleTeachesNothingAboutTheSitesWindows(t *testing.T) {
	for _, byClock := range []bool{false, true} {
		for _, clients := range []int{1, 16} {
			s := &windowed{byClock: byClock}
			run(t, s.serve, "sites: [{host: site.test, limits: [{requests: 20, per: 40s}]}]\n", func(w rig) {
				var all sync.WaitGroup
				for range clients {
					all.Go(func() {
						for range 80 / clients {
							w.Get("http://site.test/bulk/1")
						}
					})
				}
				all.Wait()
				if took := time.Since(w.Began); took > 122*time.Second {
					t.Errorf("by the clock: %v, %d clients: 80 requests took %v", byClock, clients, took)
				}
				for _, limit := range w.Learned() {
					if limit.Window > 6 {
						t.Errorf("by the clock: %v, %d clients: the site's windows are said to last %vs", byClock, clients, limit.Window)
					}
				}
			})
		}
	}
}
