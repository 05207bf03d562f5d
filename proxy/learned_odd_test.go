package proxy

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A body that is inspected and does not come does not delay its head.
func TestARefusalWhoseBodyDoesNotComeIsAnsweredInTime(t *testing.T) {
	bubble(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(404)
		fmt.Fprint(rw, "{")
		http.NewResponseController(rw).Flush()
		elapse(40 * time.Second)
		fmt.Fprint(rw, "}")
	}, "sites:\n  - {host: site.test, limits: [{concurrency: 100}]}\n", func(w *bubbleProxy) {
		r, err := http.NewRequestWithContext(w.t.Context(), "GET", "http://site.test/", nil)
		must(t, err)
		resp, err := w.client().Do(r)
		must(t, err)
		if at := time.Since(w.began); at > 5*time.Second {
			t.Errorf("the head came after %v", at)
		}
		body := make([]byte, 10)
		n := 0
		for err == nil {
			var more int
			more, err = resp.Body.Read(body[n:])
			n += more
		}
		if string(body[:n]) != "{}" {
			t.Errorf("%q %v", body[:n], err)
		}
		resp.Body.Close()
		w.idle("site.test")
	})
}

// A site with false announcements holds up only itself, and its requests end.
func TestASiteThatLies(t *testing.T) {
	var n atomic.Int64
	bubble(t, func(rw http.ResponseWriter, r *http.Request) {
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
	}, "queue: {wait: 1h}\nsites:\n  - {host: \"*.test\", limits: [{concurrency: 100}]}\n", func(w *bubbleProxy) {
		elapse(time.Until(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)))
		var all sync.WaitGroup
		for range 20 {
			c := w.client()
			all.Go(func() {
				for i := range 100 {
					w.get(c, fmt.Sprintf("http://liar.test/%d/%d/x", i%10, i))
				}
			})
		}
		elapse(30 * time.Second)
		began := time.Now()
		if got := w.get(w.client(), "http://other.test/"); got.status != 200 || time.Since(began) > time.Second {
			t.Errorf("%d after %v", got.status, time.Since(began))
		}
		all.Wait()
		w.idle("liar.test")
		w.server.Limits()
	})
}
