package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const maxWait = "Abide-Max-Wait"

func TestARequestThatGoesNowOrNotAtAllIsNeverHeld(t *testing.T) {
	run(t, echoing, unlearned+`
sites:
  - {host: site.test, limits: [{requests: 2, per: 10m}]}
  - {host: short.test, limits: [{requests: 1, per: 100ms}]}
`, func(w rig) {
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
			a := w.Get(want.url, maxWait, want.wait)
			if a.Status != want.status || a.Header.Get("Retry-After") != want.retry || a.At != 0 {
				t.Errorf("%s with %s: %d, Retry-After %q, after %v: %s", want.url, want.wait, a.Status, a.Header.Get("Retry-After"), a.At, a.Body)
			}
			if want.status == 429 && !strings.Contains(a.Body, "urn:abide:wait") {
				t.Error(a.Body)
			}
		}
		if _, held := w.Gate().Len(); held != 0 || w.Asked.Load() != 3 {
			t.Errorf("%d wait, the sites were asked %d times", held, w.Asked.Load())
		}
		if a := w.Get("http://short.test/", maxWait, "1 minute"); a.Status != 200 || a.At != 100*time.Millisecond {
			t.Errorf("%d after %v", a.Status, a.At)
		}
		w.idle("site.test")
	})
}

func TestARequestThatGoesNowDoesNotWaitForOneInFlight(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, coalesce: true, limits: [{concurrency: 1}]}\n", func(w rig) {
		release := make(chan struct{}) // of the bubble
		w.Sites = func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-release
			}
		}
		slow := make(chan result, 1)
		go func() { slow <- w.Get("http://site.test/slow") }()
		synctest.Wait()
		for _, path := range []string{"/slow", "/other"} {
			if a := w.Get("http://site.test"+path, maxWait, "0s"); a.Status != 429 || a.Header.Get("Retry-After") != "1" || a.At != 0 {
				t.Errorf("%s: %d %v after %v", path, a.Status, a.Header, a.At)
			}
		}
		if _, denied := w.permit("http://site.test/"); denied == nil || denied.Status != 429 || time.Since(w.Began) != 0 {
			t.Errorf("a permit: %+v after %v", denied, time.Since(w.Began))
		}
		close(release)
		if a := <-slow; a.Status != 200 {
			t.Error(a)
		}
		if a := w.Get("http://site.test/", maxWait, "0s"); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		w.idle("site.test")
	})
}

// The first request of a route is sent alone as a precaution, and a store takes milliseconds to answer. Neither is a
// limit: a client that does not want to wait is not refused for them, and a longer wait never gets less than a shorter one.
func TestWhoDoesNotWaitIsRefusedForLimitsAlone(t *testing.T) {
	for _, slow := range []time.Duration{0, 3 * time.Millisecond, 30 * time.Millisecond} {
		runRestarts(t, newStatePath(t), time.Hour, func(http.ResponseWriter, *http.Request) { time.Sleep(200 * time.Millisecond) }, func(l *restartTest) {
			l.slow = slow
			w := l.begin("sites:\n  - {host: site.test, limits: [{requests: 10, per: 10m}]}\n")
			defer w.end()
			for _, wait := range []string{"0s", "1ms", "150ms"} {
				for _, routes := range []int{1, 3} {
					answers := w.requestTogether(12, func(i int) result {
						time.Sleep(time.Duration(i) * time.Millisecond)
						return w.Get(fmt.Sprintf("http://site.test/%s/%d/%d", wait, routes, i%routes), maxWait, wait)
					})
					ok := 0
					for _, a := range answers {
						switch {
						case a.Status == 200:
							ok++
							if wait == "0s" && a.Waited > time.Second {
								t.Errorf("%v, %s: it has waited %v", slow, wait, a.Waited)
							}
						case a.Status != 429 || a.Header.Get("Retry-After") != "600" || !strings.Contains(a.Body, "10 requests per 10m"):
							t.Errorf("%v, %s, %d routes: %d %v: %s", slow, wait, routes, a.Status, a.Header, a.Body)
						}
					}
					if ok != 10 {
						t.Errorf("%v, %s, %d routes: %d of 10 went", slow, wait, routes, ok)
					}
					time.Sleep(11 * time.Minute)
				}
			}
			w.idle("site.test")
		})
	}
}

// The end of requests in flight is not known, but a client needs an answer.
func TestEachRefusalOfAWaitSaysWhenToComeBack(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{concurrency: 1}]}\n", func(w rig) {
		w.Sites = func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour / 2) }
		slow := make(chan result, 1)
		go func() { slow <- w.Get("http://site.test/slow") }()
		synctest.Wait()
		for _, wait := range []string{"0s", "1ms", "3s"} {
			if a := w.Get("http://site.test/", maxWait, wait); a.Status != 429 || a.Header.Get("Retry-After") != "1" {
				t.Errorf("%s: %d %v %s", wait, a.Status, a.Header, a.Body)
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
	run(t, sites, unlearned, func(w rig) {
		if a := w.Get("http://fails.test/", maxWait, "0s"); a.Status != 503 || a.Attempts != 1 || a.At != 0 {
			t.Errorf("%d %v after %v", a.Status, a.Header, a.At)
		}
		for range 2 {
			if a := w.Get("http://refuses.test/", maxWait, "0s"); a.Status != 429 || a.Header.Get("Retry-After") != "60" || a.At != 0 {
				t.Errorf("%d %v after %v", a.Status, a.Header, a.At)
			}
		}
		if n := w.Asked.Load(); n != 2 {
			t.Errorf("the sites were asked %d times", n)
		}
	})
}
