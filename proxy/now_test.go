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
`, func(w *bubbleProxy) {
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
		if _, held := w.server.Gate().Len(); held != 0 || w.asked.Load() != 3 {
			t.Errorf("%d wait, the sites were asked %d times", held, w.asked.Load())
		}
		if a := w.get(c, "http://short.test/", maxWait, "1 minute"); a.status != 200 || a.at != 100*time.Millisecond {
			t.Errorf("%d after %v", a.status, a.at)
		}
		w.idle("site.test")
	})
}

func TestARequestThatGoesNowDoesNotWaitForOneInFlight(t *testing.T) {
	bubble(t, echoing, unlearned+"sites:\n  - {host: site.test, coalesce: true, limits: [{concurrency: 1}]}\n", func(w *bubbleProxy) {
		release := make(chan struct{}) // of the bubble
		w.sites = func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-release
			}
		}
		slow := make(chan clientResult, 1)
		go func() { slow <- w.get(w.client(), "http://site.test/slow") }()
		synctest.Wait()
		for _, path := range []string{"/slow", "/other"} {
			if a := w.get(w.client(), "http://site.test"+path, maxWait, "0s"); a.status != 429 || a.header.Get("Retry-After") != "1" || a.at != 0 {
				t.Errorf("%s: %d %v after %v", path, a.status, a.header, a.at)
			}
		}
		if _, denied := w.permit("http://site.test/"); denied == nil || denied.Status != 429 || time.Since(w.began) != 0 {
			t.Errorf("a permit: %+v after %v", denied, time.Since(w.began))
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

// The first request of a route is sent alone as a precaution, which is not a limit: a client
// that does not want to wait is not refused for that, and a longer wait never gets less than
// a shorter one.
func TestWhoDoesNotWaitIsNotRefusedForTheFirstRequestOfARoute(t *testing.T) {
	bubble(t, echoing, "sites:\n  - {host: site.test, limits: [{requests: 10, per: 10m}]}\n", func(w *bubbleProxy) {
		w.sites = func(http.ResponseWriter, *http.Request) { time.Sleep(200 * time.Millisecond) }
		for _, wait := range []string{"0s", "1ms", "150ms"} {
			began, c := time.Since(w.began), w.client()
			answers := make(chan clientResult, 12)
			for range cap(answers) {
				go func() { answers <- w.get(c, "http://site.test/"+wait, maxWait, wait) }()
			}
			ok := 0
			for range cap(answers) {
				switch a := <-answers; a.status {
				case 200:
					ok++
				case 429:
					if a.header.Get("Retry-After") != "600" {
						t.Errorf("%s: %v after %v: %s", wait, a.header, a.at-began, a.body)
					}
				default:
					t.Errorf("%s: %d %s", wait, a.status, a.body)
				}
			}
			if ok != 10 {
				t.Errorf("%s: %d of 10 went", wait, ok)
			}
			time.Sleep(10 * time.Minute)
		}
		w.idle("site.test")
	})
}

// The end of requests in flight is not known, but a client needs an answer.
func TestEachRefusalOfAWaitSaysWhenToComeBack(t *testing.T) {
	bubble(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{concurrency: 1}]}\n", func(w *bubbleProxy) {
		w.sites = func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour / 2) }
		slow := make(chan clientResult, 1)
		go func() { slow <- w.get(w.client(), "http://site.test/slow") }()
		synctest.Wait()
		for _, wait := range []string{"0s", "1ms", "3s"} {
			if a := w.get(w.client(), "http://site.test/", maxWait, wait); a.status != 429 || a.header.Get("Retry-After") != "1" {
				t.Errorf("%s: %d %v %s", wait, a.status, a.header, a.body)
			}
		}
		if _, denied := w.permit("http://site.test/"); denied == nil || denied.Status != 429 || time.Until(denied.RetryAt) != time.Second {
			t.Errorf("a permit: %+v", denied)
		}
		<-slow
		w.idle("site.test")
	})
}

// The site's first response is returned, or what abide concludes from that response.
func TestARequestThatGoesNowIsSentOnce(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.Host == "refuses.test" {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
			return
		}
		rw.WriteHeader(503)
	}
	bubble(t, sites, unlearned, func(w *bubbleProxy) {
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
