package proxy

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const maxWait = "Abide-Max-Wait"

func TestARequestThatGoesNowOrNotAtAllIsNeverHeld(t *testing.T) {
	bubble(t, echoing, unlearned+`
sites:
  - {host: site.test, limits: [{requests: 2, per: 10m}]}
  - {host: short.test, limits: [{requests: 1, per: 100ms}]}
`, func(w *world) {
		c := w.client()
		for _, want := range []struct {
			url, wait string
			status    int
			retry     string
		}{
			{"http://site.test/", "0s", 200, ""},
			{"http://site.test/", "0", 200, ""},
			{"http://site.test/", "0s", 429, "600"},
			{"http://site.test/", "0s", 429, "600"},
			{"http://short.test/", "0s", 200, ""},
			{"http://short.test/", "0s", 429, "1"},
			{"http://short.test/", "-1s", 400, ""},
			{"http://short.test/", "30", 400, ""},
		} {
			a := w.get(c, want.url, maxWait, want.wait)
			if a.status != want.status || a.header.Get("Retry-After") != want.retry || a.at != 0 {
				t.Errorf("%s with %s: %d, Retry-After %q, after %v: %s", want.url, want.wait, a.status, a.header.Get("Retry-After"), a.at, a.body)
			}
			if want.status == 429 && !strings.Contains(a.body, "urn:abide:wait") {
				t.Error(a.body)
			}
		}
		if _, held := w.server.gate.Len(); held != 0 || w.asked.Load() != 3 {
			t.Errorf("%d wait, the sites were asked %d times", held, w.asked.Load())
		}
		if a := w.get(c, "http://short.test/", maxWait, "1 minute"); a.status != 200 || a.at != 100*time.Millisecond {
			t.Errorf("%d after %v", a.status, a.at)
		}
		w.idle("site.test")
	})
}

func TestARequestThatGoesNowDoesNotWaitForOneInFlight(t *testing.T) {
	bubble(t, echoing, unlearned+"sites:\n  - {host: site.test, coalesce: true, limits: [{concurrency: 1}]}\n", func(w *world) {
		release := make(chan struct{}) // of the bubble
		w.sites = func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-release
			}
		}
		slow := make(chan got, 1)
		go func() { slow <- w.get(w.client(), "http://site.test/slow") }()
		synctest.Wait()
		for _, path := range []string{"/slow", "/other"} {
			if a := w.get(w.client(), "http://site.test"+path, maxWait, "0s"); a.status != 429 || a.header.Get("Retry-After") != "1" || a.at != 0 {
				t.Errorf("%s: %d %v after %v", path, a.status, a.header, a.at)
			}
		}
		if _, no := w.permit("http://site.test/"); no == nil || no.Status != 429 || time.Since(w.began) != 0 {
			t.Errorf("a permit: %+v after %v", no, time.Since(w.began))
		}
		close(release)
		if a := <-slow; a.status != 200 {
			t.Error(a)
		}
		if a := w.get(w.client(), "http://site.test/", maxWait, "0s"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.idle("site.test")
	})
}

// What the site says first is the answer, or what abide makes of it at once.
func TestARequestThatGoesNowIsSentOnce(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.Host == "refuses.test" {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
			return
		}
		rw.WriteHeader(503)
	}
	bubble(t, sites, unlearned, func(w *world) {
		c := w.client()
		if a := w.get(c, "http://fails.test/", maxWait, "0s"); a.status != 503 || a.header.Get("Abide-Attempts") != "1" || a.at != 0 {
			t.Errorf("%d %v after %v", a.status, a.header, a.at)
		}
		for range 2 {
			if a := w.get(c, "http://refuses.test/", maxWait, "0s"); a.status != 429 || a.header.Get("Retry-After") != "60" || a.at != 0 {
				t.Errorf("%d %v after %v", a.status, a.header, a.at)
			}
		}
		if n := w.asked.Load(); n != 2 {
			t.Errorf("the sites were asked %d times", n)
		}
	})
}
