package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsBeyondALimitWaitForItsWindow(t *testing.T) {
	bubble(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 10, per: 15m}]
`, func(w *bubbleProxy) {
		c := w.client()
		for i := range 25 {
			a := w.get(c, fmt.Sprintf("http://site.test/%d", i))
			if a.status != 200 {
				t.Fatalf("request %d: %d %s", i, a.status, a.body)
			}
			if want := time.Duration(i/10) * 15 * time.Minute; a.at < want || a.at > want+time.Second {
				t.Errorf("request %d was answered after %v, not %v", i, a.at, want)
			}
			if i == 10 && !strings.HasPrefix(a.header.Get("Abide-Wait"), "900.") && !strings.HasPrefix(a.header.Get("Abide-Wait"), "899.") {
				t.Errorf("Abide-Wait: %q", a.header.Get("Abide-Wait"))
			}
		}
		if a := w.get(c, "http://other.test/"); a.header.Get("Abide-Wait") != "0" || a.header.Get("Abide-Site") != "other.test" || a.header.Get("Abide-Attempts") != "1" {
			t.Errorf("%v", a.header)
		}
	})
}

func TestAHeldRequestWhoseClientLeavesIsGone(t *testing.T) {
	bubble(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 10m}]
`, func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		ctx, leave := context.WithCancel(w.t.Context())
		done := make(chan clientResult, 1)
		go func() { done <- w.do(ctx, w.client(), "POST", "http://site.test/leaves", strings.NewReader("x")) }()
		synctest.Wait()
		if holds := w.server.Holds("site.test", 1000); len(holds) != 1 {
			t.Fatalf("%d holds", len(holds))
		}
		leave()
		<-done
		time.Sleep(time.Second)
		synctest.Wait()
		if holds := w.server.Holds("site.test", 1000); len(holds) != 0 {
			t.Errorf("%d holds a second after the client left", len(holds))
		}
		a := w.get(w.client(), "http://site.test/second")
		if a.status != 200 || a.at > 10*time.Minute+time.Second || w.asked.Load() != 2 {
			t.Errorf("%d after %v and %d requests: what the client left was spent", a.status, a.at, w.asked.Load())
		}
	})
}

func TestAReloadPlansWhatWaitsAnew(t *testing.T) {
	const yaml = `
queue: {wait: 2h}
sites:
  - host: site.test
    limits: [{requests: %d, per: 1m}]
`
	bubble(t, echoing, fmt.Sprintf(yaml, 1), func(w *bubbleProxy) {
		var all sync.WaitGroup
		var ok atomic.Int64
		for range 50 {
			c := w.client()
			all.Go(func() {
				if a := w.get(c, "http://site.test/"); a.status == 200 {
					ok.Add(1)
				}
			})
		}
		synctest.Wait()
		if ok.Load() != 1 || len(w.server.Holds("", 1000)) != 49 {
			t.Fatalf("%d went, %d wait", ok.Load(), len(w.server.Holds("", 1000)))
		}
		must(t, w.server.Reload(w.policy(fmt.Sprintf(yaml, 50))))
		all.Wait()
		if ok.Load() != 50 || w.asked.Load() != 50 || time.Since(w.began) > time.Minute {
			t.Errorf("%d of 50 went, the site was asked %d times, after %v", ok.Load(), w.asked.Load(), time.Since(w.began))
		}
	})
}

func TestALoweredLimitKeepsWhatWasSpent(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, limits: [{requests: %d, per: 10m}]}\n"
	bubble(t, echoing, fmt.Sprintf(yaml, 5), func(w *bubbleProxy) {
		c := w.client()
		for range 5 {
			w.get(c, "http://site.test/")
		}
		must(t, w.server.Reload(w.policy(fmt.Sprintf(yaml, 3))))
		if a := w.get(c, "http://site.test/"); a.status != 200 || a.at < 10*time.Minute || a.at > 11*time.Minute {
			t.Errorf("%d after %v", a.status, a.at)
		}
	})
}

func TestObserveHoldsNothingAndTellsWhatItWouldHaveHeld(t *testing.T) {
	refuse := false
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if refuse {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		}
	}
	bubble(t, sites, "mode: observe\nsites:\n  - {host: site.test, limits: [{requests: 2, per: 10m}]}\n", func(w *bubbleProxy) {
		c := w.client()
		for i := range 4 {
			a := w.get(c, "http://site.test/")
			if a.status != 200 || a.at > time.Second {
				t.Errorf("request %d: %d after %v", i, a.status, a.at)
			}
			held := a.header.Get("Abide-Would-Limit") == "2 requests per 10m" && strings.HasPrefix(a.header.Get("Abide-Would-Wait"), "600")
			if held != (i >= 2) {
				t.Errorf("request %d: %v", i, a.header)
			}
		}
		refuse = true
		if a := w.get(c, "http://other.test/"); a.status != 429 || a.header.Get("Abide-Attempts") != "1" {
			t.Errorf("a refusal: %d %v", a.status, a.header)
		}
	})
}

func TestStoppingAnswersWhatIsHeld(t *testing.T) {
	bubble(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 10m}]
`, func(w *bubbleProxy) {
		c := w.client()
		w.get(c, "http://site.test/")
		done := make(chan clientResult, 1)
		go func() { done <- w.get(w.client(), "http://site.test/held") }()
		synctest.Wait()
		w.stop()
		a := <-done
		if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "urn:abide:draining") {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		if a.at > time.Second { // the request may be sent in 10 minutes, and drain has 30 seconds
			t.Errorf("after %v", a.at)
		}
	})
}

func TestStoppingLetsGoWhatHasItsTurnInTime(t *testing.T) {
	bubble(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 20s}]
`, func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/")
		done := make(chan clientResult, 2)
		for range 2 {
			go func() { done <- w.get(w.client(), "http://site.test/held") }()
			synctest.Wait()
		}
		w.stop()
		if a := <-done; a.status != 503 || a.header.Get("Retry-After") == "" || a.at > time.Second {
			t.Errorf("what comes after the drain: %d after %v", a.status, a.at)
		}
		if a := <-done; a.status != 200 || a.at < 20*time.Second {
			t.Errorf("what comes before its end: %d after %v", a.status, a.at)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	bubble(t, echoing, `
queue: {max: 8, per_site: 5, wait: 1h}
sites:
  - host: "*.test"
    limits: [{requests: 1, per: 10m}]
`, func(w *bubbleProxy) {
		var all sync.WaitGroup
		hold := func(host string) {
			c := w.client()
			all.Go(func() { w.get(c, "http://"+host+"/") })
			synctest.Wait()
		}
		for range 6 { // one request is sent, five wait
			hold("a.test")
		}
		began := time.Now()
		a := w.get(w.client(), "http://a.test/")
		if a.status != 503 || a.header.Get("Retry-After") == "" || time.Since(began) > time.Second {
			t.Errorf("CR-12 beyond queue.per_site: %d %v", a.status, a.header)
		}
		for range 4 { // one request is sent, three wait
			hold("b.test")
		}
		if a := w.get(w.client(), "http://b.test/"); a.status != 503 {
			t.Errorf("CR-12 beyond queue.max: %d", a.status)
		}
		if a := w.get(w.client(), "http://c.test/"); a.status != 200 {
			t.Errorf("CR-15 a site that is free: %d", a.status)
		}
		all.Wait()
	})
}

func TestAWaitThatWouldBeTooLongIsRefusedAtOnce(t *testing.T) {
	bubble(t, echoing, `
queue: {wait: 5m}
sites:
  - host: site.test
    limits: [{requests: 1, per: 10m}]
`, func(w *bubbleProxy) {
		c := w.client()
		w.get(c, "http://site.test/")
		for _, wish := range [][]string{nil, {"Abide-Max-Wait", "30s"}} {
			a := w.get(c, "http://site.test/", wish...)
			if a.status != 429 || a.header.Get("Retry-After") != "600" || a.at > time.Second {
				t.Errorf("%d after %v: %v", a.status, a.at, a.header)
			}
			for _, want := range []string{`"urn:abide:wait"`, `"site":"site.test"`, `per 10m`, `"retry_at":"`} {
				if !strings.Contains(a.body, want) {
					t.Errorf("the problem lacks %s: %s", want, a.body)
				}
			}
		}
		if a := w.get(c, "http://site.test/", "Abide-Max-Wait", "soon"); a.status != 400 {
			t.Errorf("a wish that makes no sense: %d", a.status)
		}
	})
}

func TestTheMoreUrgentGoFirst(t *testing.T) {
	var order []string
	var mu sync.Mutex
	sites := func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		order = append(order, r.URL.Path)
		mu.Unlock()
		for name := range r.Header {
			if strings.HasPrefix(name, "Abide-") {
				t.Errorf("the site was told %s", name)
			}
		}
	}
	bubble(t, sites, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 1s, as: paced}]
`, func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		var all sync.WaitGroup
		for _, p := range []string{"7", "3", "0"} {
			c := w.client()
			all.Go(func() { w.get(c, "http://site.test/"+p, "Abide-Priority", p) })
			synctest.Wait()
		}
		all.Wait()
		if got := strings.Join(order, ""); got != "/first/0/3/7" {
			t.Errorf("%s", got)
		}
	})
}
