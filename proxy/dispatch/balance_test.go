package dispatch_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hostCounts counts requests by host.
type hostCounts struct{ a, b atomic.Int64 }

func (c *hostCounts) add(host string) {
	if host == "a.test" {
		c.a.Add(1)
	} else {
		c.b.Add(1)
	}
}

func (c *hostCounts) reset() { c.a.Store(0); c.b.Store(0) }

func TestABackendThatIsNewIsNotFlooded(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, balance: %s, backends: [%s]}\n"
	for _, balance := range []string{"round-robin", "least-loaded"} {
		var went hostCounts
		run(t, func(_ http.ResponseWriter, r *http.Request) { went.add(r.Host) }, fmt.Sprintf(yaml, balance, "http://a.test"), func(w rig) {
			for range 100 {
				w.Get("http://site.test/")
			}
			w.Reload(fmt.Sprintf(yaml, balance, "http://a.test, http://b.test"))
			went.reset()
			for range 40 {
				w.Get("http://site.test/")
			}
			if a, b := went.a.Load(), went.b.Load(); a < 18 || b < 18 {
				t.Errorf("%s: of 40 requests %d went to the old one, %d to the new one", balance, a, b)
			}
		})
	}
}

func TestABurstOfRequestsThatAreLetGoIsBalanced(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, balance: %s, backends: [http://a.test, http://b.test], limits: [{requests: 40, per: 1m, as: fixed}]}\n"
	for _, balance := range []string{"round-robin", "least-loaded", "adaptive"} {
		var went hostCounts
		sites := func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			went.add(r.Host)
		}
		run(t, sites, fmt.Sprintf(yaml, balance), func(w rig) {
			run := func(n int) {
				done := make(chan result, n)
				for range n {
					go func() { done <- w.Get("http://site.test/") }()
				}
				for range n {
					if a := <-done; a.Status != 200 {
						t.Errorf("%d %s", a.Status, a.Body)
					}
				}
			}
			run(80)
			synctest.Wait()
			went.reset()
			run(40)
			if a, b := went.a.Load(), went.b.Load(); min(a, b) < 16 {
				t.Errorf("%s: of 40 requests %d and %d", balance, a, b)
			}
		})
	}
}

func TestALocationIsChangedOnlyWhereItNamesABackend(t *testing.T) {
	var location string
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header()["Location"] = []string{location}
		rw.WriteHeader(302)
	}
	for _, c := range []struct{ is, want string }{
		{"http://a.test", "http://site.test"},
		{"//a.test/x", "http://site.test/x"},
		{"http://a.test:80/x?u=http://a.test/#f", "http://site.test/x?u=http://a.test/#f"},
		{"HTTP://B.TEST/a//b/../c;d", "http://site.test/a//b/../c;d"},
		{"/x", "/x"},
		{"http:a.test/x", "http:a.test/x"},
		{"http://a.test:81/x", "http://a.test:81/x"},
		{"https://a.test/x", "https://a.test/x"},
		{"http://elsewhere.test/http://a.test/", "http://elsewhere.test/http://a.test/"},
	} {
		location = c.is
		run(t, sites, "sites:\n  - {host: site.test, backends: [http://a.test, http://b.test]}\n", func(w rig) {
			if a := w.Get("http://site.test/"); a.Status != 302 || len(a.Header["Location"]) != 1 || a.Header.Get("Location") != c.want {
				t.Errorf("%s: %d %q, not %s", c.is, a.Status, a.Header["Location"], c.want)
			}
		})
	}
}
