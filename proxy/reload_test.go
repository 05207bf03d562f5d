package proxy

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAReloadOfTimeoutsEndsNothingThatIsHeld(t *testing.T) {
	bubble(t, echoing, tenMinutes, func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		done := make(chan clientResult, 1)
		go func() { done <- w.get(w.client(), "http://site.test/held") }()
		synctest.Wait()
		w.reload("timeouts: {idle: 6m, answer: 1h, drain: 30s}\n" + tenMinutes)
		if a := <-done; a.status != 200 || a.at > 11*time.Minute {
			t.Errorf("%d %q after %v", a.status, a.body, a.at)
		}
	})
}

func TestAReloadOfBoundsEndsNothingThatIsToBeSentAgain(t *testing.T) {
	n := 0
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		}
	}
	bubble(t, sites, "", func(w *bubbleProxy) {
		done := make(chan clientResult, 1)
		go func() { done <- w.get(w.client(), "http://site.test/") }()
		synctest.Wait()
		w.reload("bounds: {upload: 5MiB}\n")
		if a := <-done; a.status != 200 || a.at < time.Minute || a.at > 2*time.Minute {
			t.Errorf("%d %q after %v", a.status, a.body, a.at)
		}
	})
}

func TestARequestGoesToTheSiteItselfWhenAReloadTakesItsBackendsAway(t *testing.T) {
	hosts := make(chan string, 10)
	n := 0
	sites := func(rw http.ResponseWriter, r *http.Request) {
		hosts <- r.Host
		if n++; n == 1 {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		}
	}
	bubble(t, sites, "sites:\n  - {host: site.test, backends: [http://a.test]}\n", func(w *bubbleProxy) {
		done := make(chan clientResult, 1)
		go func() { done <- w.get(w.client(), "http://site.test/") }()
		synctest.Wait()
		time.Sleep(time.Second)
		w.reload("sites: []\n")
		if a := <-done; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a, b := <-hosts, <-hosts; a != "a.test" || b != "site.test" {
			t.Errorf("it was sent to %s, then to %s", a, b)
		}
		w.idle("site.test")
	})
}

func TestAReloadOfBackendsWhileRequestsAreAtThem(t *testing.T) {
	const yaml = "retry: {refusals: 1}\nsites:\n  - {host: site.test, backends: [%s]}\n"
	n := 0
	var reload func()
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			reload()
		}
		rw.Header().Set("Retry-After", "60")
		rw.WriteHeader(429)
	}
	bubble(t, sites, fmt.Sprintf(yaml, "http://a.test, http://b.test, http://c.test"), func(w *bubbleProxy) {
		reload = func() { w.reload(fmt.Sprintf(yaml, "http://c.test, http://d.test")) }
		for i := range 5 {
			if a := w.get(w.client(), "http://site.test/"); a.status != 429 {
				t.Errorf("request %d: %d %s", i, a.status, a.body)
			}
		}
		w.idle("site.test")
	})
}

func TestBackendsThatGoAndComeBackWhileRequestsRest(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }
	bubble(t, sites, "retry: {base: 10s, attempts: 5}\nsites:\n  - {host: site.test, backends: [http://a.test, http://b.test]}\n", func(w *bubbleProxy) {
		done := make(chan clientResult, 10)
		for range 10 {
			go func() { done <- w.get(w.client(), "http://site.test/") }()
		}
		synctest.Wait()
		w.reload("sites: []\n")
		time.Sleep(30 * time.Second)
		w.reload("sites:\n  - {host: site.test, backends: [http://c.test, http://d.test, http://e.test]}\n")
		for range 10 {
			if a := <-done; a.status != 503 {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		w.idle("site.test")
	})
}

func TestAReloadOfTheBreakersRuleHoldsForWhatWaitsToo(t *testing.T) {
	const yaml = "queue: {wait: 2h}\nretry: {attempts: 1, base: 1ms}\nbreaker: {failures: %d, pause: 10m}\nsites:\n  - {host: site.test, limits: [{requests: 1, per: 10s, as: paced}]}\n"
	sites := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }
	bubble(t, sites, fmt.Sprintf(yaml, 5), func(w *bubbleProxy) {
		for range 40 {
			go w.get(w.client(), "http://site.test/")
		}
		synctest.Wait()
		w.reload(fmt.Sprintf(yaml, 6))
		for range 40 {
			go w.get(w.client(), "http://site.test/", "Abide-Priority", "3", "Abide-Client", "b")
		}
		time.Sleep(8 * time.Minute)
		if n := w.asked.Load(); n < 6 || n > 7 {
			t.Errorf("a site that always fails was asked %d times", n)
		}
		if open := w.server.Breakers(); len(open) != 1 || open[0].State != "open" {
			t.Errorf("%+v", open)
		}
		w.stop()
	})
}

func TestReloadsUnderLoadLeaveNothingBehind(t *testing.T) {
	var n atomic.Int64
	sites := func(rw http.ResponseWriter, r *http.Request) {
		discard(r.Body)
		time.Sleep(time.Duration(n.Load()%50) * 10 * time.Millisecond)
		switch n.Add(1) % 6 {
		case 0:
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(429)
		case 1:
			rw.WriteHeader(503)
		case 2:
			panic(http.ErrAbortHandler)
		}
	}
	yamls := []string{
		"sites:\n  - {host: site.test, backends: [http://a.test, http://b.test], limits: [{concurrency: 3}, {requests: 20, per: 5s}]}\n",
		"sites:\n  - {host: site.test, backends: [http://c.test], balance: least-loaded, limits: [{concurrency: 3, by: client}, {path: /1, requests: 20, per: 5s}]}\n",
		"sites:\n  - {host: site.test, limits: [{requests: 20, per: 3s, as: bucket, burst: 3}]}\n",
		"sites: []\n",
		"sites:\n  - {host: site.test, backends: [http://a.test, http://b.test, http://c.test], balance: round-robin, limits: [{cost: 30, per: 3s}]}\n",
	}
	bubble(t, sites, yamls[0], func(w *bubbleProxy) {
		var running, good atomic.Int64
		const crowd = 100
		for i := range crowd {
			running.Add(1)
			go func() {
				defer running.Add(-1)
				time.Sleep(time.Duration(i) * 141 * time.Millisecond)
				if w.requestNumbered(i, fmt.Sprintf("http://site.test/%d", i%4), time.Duration(1+i%4)*20*time.Second) == 200 {
					good.Add(1)
				}
			}()
		}
		for i := range 30 {
			time.Sleep(time.Second / 2)
			w.reload(yamls[i%len(yamls)])
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if running.Load() != 0 || good.Load() < crowd/4 {
			t.Errorf("%d still wait, %d were answered", running.Load(), good.Load())
		}
		w.idle("site.test")
	})
}

func TestAReloadThatSwitchesBreakersOffForgetsThem(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }
	bubble(t, sites, "retry: {attempts: 1, base: 1ms}\nbreaker: {failures: 2, pause: 30s}\n", func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/")
		if n := len(w.server.Breakers()); n != 1 {
			t.Fatalf("%d breakers", n)
		}
		w.reload("breaker: {failures: 0}\n")
		if open := w.server.Breakers(); len(open) != 0 {
			t.Errorf("%+v", open)
		}
	})
}
