package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnOutageAndTheRecoveryFromIt(t *testing.T) {
	down := atomic.Bool{}
	var probes, most, flying atomic.Int64
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		n := flying.Add(1)
		defer flying.Add(-1)
		time.Sleep(100 * time.Millisecond)
		if down.Load() {
			rw.WriteHeader(503)
			return
		}
		if probes.Add(1) == 1 {
			most.Store(n)
		}
	}
	bubble(t, sites, "breaker: {failures: 10, pause: 30s}\nretry: {attempts: 4, base: 500ms}\n", func(w *bubbleProxy) {
		down.Store(true)
		var all sync.WaitGroup
		codes := make(chan int, 100)
		for range 20 {
			c := w.client()
			all.Go(func() { codes <- w.get(c, "http://site.test/").status })
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		asked := w.asked.Load()
		if asked > 40 {
			t.Errorf("%d requests to a site that is down", asked)
		}
		began := time.Now()
		a := w.get(w.client(), "http://site.test/new")
		if a.status != 503 || a.header.Get("Retry-After") == "" || time.Since(began) > time.Second || w.asked.Load() != asked {
			t.Errorf("a new request: %d after %v: %v %s", a.status, time.Since(began), a.header, a.body)
		}
		if b := w.server.Breakers(); len(b) != 1 || b[0].Site != "site.test" || b[0].State != "open" {
			t.Errorf("%+v", b)
		}
		if a := w.get(w.client(), "http://other.test/"); a.status != 503 || a.header.Get("Abide-Attempts") != "5" {
			t.Errorf("another site: %d %v", a.status, a.header) // which is down as well, but has its own breaker
		}
		down.Store(false)
		all.Wait()
		close(codes)
		good := 0
		for code := range codes {
			if code == 200 {
				good++
			}
		}
		if good < 18 {
			t.Errorf("%d of 20 got through the outage", good)
		}
		if most.Load() != 1 {
			t.Errorf("%d at once when it came back", most.Load())
		}
		if time.Since(w.began) > 65*time.Second {
			t.Errorf("after %v", time.Since(w.began))
		}
		if len(w.server.Breakers()) > 1 {
			t.Errorf("%+v", w.server.Breakers())
		}
	})
}
