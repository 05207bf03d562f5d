package dispatch_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAReloadWhileARequestIsInFlight(t *testing.T) {
	var refused atomic.Int64
	var reload func()
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if refused.Add(1) <= 3 {
			if refused.Load() == 1 {
				reload()
			}
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		}
	}
	const yaml = "sites:\n  - {host: site.test, limits: [{requests: 100, per: 1m}, {path: %s, requests: 100, per: 1m}]}\n"
	run(t, sites, fmt.Sprintf(yaml, "/a"), func(w rig) {
		reload = func() { w.Reload("sites: []\n") }
		a := w.Get("http://site.test/a")
		if a.Status != 200 || w.Asked.Load() != 4 || a.At < 3*time.Minute || a.At > 4*time.Minute {
			t.Errorf("%d after %v and %d requests", a.Status, a.At, w.Asked.Load())
		}
	})
}

func TestASiteThatSaysZeroSecondsIsNotHammered(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "0")
		rw.WriteHeader(429)
	}
	run(t, sites, "", func(w rig) {
		a := w.Get("http://site.test/")
		if a.Status != 429 || w.Asked.Load() > 21 || a.At < 5*time.Minute {
			t.Errorf("%d after %v and %d requests", a.Status, a.At, w.Asked.Load())
		}
	})
}

func TestAFailureThatCannotBeRetriedInTimeIsDelivered(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(502)
		io.WriteString(rw, "the site's own words")
	}
	run(t, sites, "retry: {base: 30s}\n", func(w rig) {
		a := w.Get("http://site.test/", "Abide-Max-Wait", "1ms")
		if a.Status != 502 || a.Body != "the site's own words" || a.At > time.Second {
			t.Errorf("%d %q after %v", a.Status, a.Body, a.At)
		}
	})
}

func TestOneRouteHasOneMeterHoweverItIsWritten(t *testing.T) {
	run(t, echoing, "sites:\n  - {host: site.test, limits: [{requests: 1, per: 10m, by: route}]}\n", func(w rig) {
		w.Get("http://site.test/t")
		if a := w.Get("http://site.test/other"); a.At > time.Minute {
			t.Errorf("another route waited until %v", a.At)
		}
		if a := w.Get("http://site.test/%74"); a.At < 10*time.Minute {
			t.Errorf("the same route in other letters went after %v", a.At)
		}
	})
}

func TestAHerdIsNotLetLooseAfterACooldown(t *testing.T) {
	var refusals atomic.Int64
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		elapse(20 * time.Millisecond)
		if refusals.Load() < 4 {
			refusals.Add(1)
			rw.Header().Set("Retry-After", "30")
			rw.WriteHeader(429)
		}
	}
	run(t, sites, "", func(w rig) {
		codes := make(chan int, 200)
		codes <- w.Do(w.T.Context(), "GET", "http://site.test/", "", "Abide-Max-Wait", "1s").Status // the first learns it
		for range 100 {
			go func() { codes <- w.Get("http://site.test/").Status }()
		}
		for i := range 101 {
			if code := <-codes; code != 200 && i > 0 {
				t.Errorf("%d", code)
			}
		}
		if n := w.Asked.Load(); n > 104 {
			t.Errorf("%d requests for 100 answers and 4 refusals", n)
		}
	})
}

func TestAURLThatIsAlwaysRefusedStarvesNobody(t *testing.T) {
	for _, said := range []string{"0", ""} {
		sites := func(rw http.ResponseWriter, r *http.Request) {
			elapse(20 * time.Millisecond)
			if r.URL.Path == "/refused" {
				if said != "" {
					rw.Header().Set("Retry-After", said)
				}
				rw.WriteHeader(429)
			}
		}
		run(t, sites, "", func(w rig) {
			done := make(chan struct{})
			go func() { defer close(done); w.Get("http://site.test/refused") }()
			elapse(time.Second)
			began := time.Now()
			for range 300 {
				if a := w.Get("http://site.test/"); a.Status != 200 {
					t.Errorf("%d", a.Status)
				}
				elapse(time.Second)
			}
			if took := time.Since(began) - 300*time.Second; took > 60*time.Second {
				t.Errorf("Retry-After %q: others waited for %v of 5 minutes", said, took)
			}
			<-done
		})
	}
}

func TestADeadSiteIsSaidToBeDead(t *testing.T) {
	run(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(502) }, "queue: {wait: 20s}\n", func(w rig) {
		answers := make(chan result, 40)
		for i := range 40 {
			go func() {
				if i%2 == 0 {
					answers <- w.Get("http://site.test/", "Abide-Max-Wait", "5s")
				} else {
					answers <- w.Get("http://site.test/")
				}
			}()
		}
		for range 40 {
			if a := <-answers; a.Status != 502 && !(a.Status == 503 && strings.Contains(a.Body, "urn:abide:breaker")) {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
	})
}
