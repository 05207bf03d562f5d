package dispatch_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// A refusal of one client's own credential holds no other credential back.
func TestARefusalIsTheCredentialsUntilOthersShowThatItIsTheSites(t *testing.T) {
	for _, said := range []string{"3600", ""} {
		var spent atomic.Int64
		sites := func(rw http.ResponseWriter, r *http.Request) {
			elapse(20 * time.Millisecond)
			if r.Header.Get("Authorization") == "Bearer spent" {
				spent.Add(1)
				if said != "" {
					rw.Header().Set("Retry-After", said)
				}
				rw.WriteHeader(http.StatusTooManyRequests)
			}
		}
		run(t, sites, "", func(w rig) {
			w.Get("http://site.test/first", "Authorization", "Bearer good")
			done := make(chan result, 3)
			for range 3 {
				go func() { done <- w.Get("http://site.test/a", "Authorization", "Bearer spent", "Abide-Max-Wait", "10m") }()
			}
			elapse(time.Second)
			for i := range 100 {
				for _, header := range [][]string{{"Authorization", "Bearer good"}, {"Authorization", "Bearer other"}, nil} {
					if a := w.Get("http://site.test/a", header...); a.Status != 200 || a.Waited > 2*time.Second {
						t.Fatalf("Retry-After %q, request %d with %v: %d after %v", said, i, header, a.Status, a.Waited)
					}
				}
			}
			if n := spent.Load(); n > 15 {
				t.Errorf("the spent credential was sent %d times", n)
			}
			for range 3 {
				<-done
			}
		})
	}
}

// Where each credential is refused in its turn although it has hardly been used, the limit is the site's.
func TestALimitOfAllCredentialsIsFound(t *testing.T) {
	window, used, refused := time.Time{}, 0, 0
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if time.Since(window) >= 10*time.Second {
			window, used = time.Now(), 0
		}
		if used++; used > 20 {
			refused++
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	}
	run(t, sites, "", func(w rig) {
		for i := range 600 {
			if a := w.Get("http://site.test/a", "Authorization", "Bearer "+string(rune('a'+i%6))); a.Status != 200 {
				t.Fatalf("request %d: %d", i, a.Status)
			}
		}
		if refused > 60 {
			t.Errorf("%d of 600 were refused", refused)
		}
	})
}
