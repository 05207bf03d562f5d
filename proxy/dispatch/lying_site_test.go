package dispatch_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A site with false announcements holds up only itself, and its requests end.
func TestASiteThatLies(t *testing.T) {
	var n atomic.Int64
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Host != "liar.test" {
			return
		}
		n := n.Add(1)
		h := rw.Header()
		switch n % 7 {
		case 0:
			h.Set("X-RateLimit-Limit", "0")
		case 1:
			h.Set("X-RateLimit-Limit", fmt.Sprint(n))
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("X-RateLimit-Reset", "2592000")
		case 2:
			h.Set("Retry-After", "1e9")
		case 3:
			h.Set("Retry-After", "1000000000")
			rw.WriteHeader(429)
		case 4:
			h.Set("X-RateLimit-Limit", "9223372036854775807")
			h.Set("X-RateLimit-Remaining", "99999999999999999999999")
			h.Set("X-RateLimit-Reset", "-5")
		case 5:
			h.Set("X-RateLimit-Bucket", fmt.Sprint("b", n))
			h.Set("RateLimit", fmt.Sprintf(`"x%d";r=0;t=100000`, n))
		case 6:
			rw.WriteHeader(503)
		}
	}, "queue: {wait: 1h}\nsites:\n  - {host: \"*.test\", limits: [{concurrency: 100}]}\n", func(w rig) {
		elapse(time.Until(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for i := range 100 {
					w.Get(fmt.Sprintf("http://liar.test/%d/%d/x", i%10, i))
				}
			})
		}
		elapse(30 * time.Second)
		began := time.Now()
		if got := w.Get("http://other.test/"); got.Status != 200 || time.Since(began) > time.Second {
			t.Errorf("%d after %v", got.Status, time.Since(began))
		}
		all.Wait()
		w.idle("liar.test")
		w.Limits()
	})
}
