package dispatch_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

const tenMinutes = "sites:\n  - {host: site.test, limits: [{requests: 1, per: 10m}]}\n"

func TestAReloadOfTimeoutsEndsNothingThatIsHeld(t *testing.T) {
	run(t, echoing, tenMinutes, func(w rig) {
		w.Get("http://site.test/first")
		done := make(chan result, 1)
		go func() { done <- w.Get("http://site.test/held") }()
		synctest.Wait()
		w.Reload("timeouts: {idle: 6m, answer: 1h, drain: 30s}\n" + tenMinutes)
		if a := <-done; a.Status != 200 || a.At > 11*time.Minute {
			t.Errorf("%d %q after %v", a.Status, a.Body, a.At)
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
	run(t, sites, "", func(w rig) {
		done := make(chan result, 1)
		go func() { done <- w.Get("http://site.test/") }()
		synctest.Wait()
		w.Reload("bounds: {upload: 5MiB}\n")
		if a := <-done; a.Status != 200 || a.At < time.Minute || a.At > 2*time.Minute {
			t.Errorf("%d %q after %v", a.Status, a.Body, a.At)
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
	run(t, sites, "sites:\n  - {host: site.test, backends: [http://a.test]}\n", func(w rig) {
		done := make(chan result, 1)
		go func() { done <- w.Get("http://site.test/") }()
		synctest.Wait()
		time.Sleep(time.Second)
		w.Reload("sites: []\n")
		if a := <-done; a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
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
	run(t, sites, fmt.Sprintf(yaml, "http://a.test, http://b.test, http://c.test"), func(w rig) {
		reload = func() { w.Reload(fmt.Sprintf(yaml, "http://c.test, http://d.test")) }
		for i := range 5 {
			if a := w.Get("http://site.test/"); a.Status != 429 {
				t.Errorf("request %d: %d %s", i, a.Status, a.Body)
			}
		}
		w.idle("site.test")
	})
}

func TestBackendsThatGoAndComeBackWhileRequestsRest(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }
	run(t, sites, "retry: {base: 10s, attempts: 5}\nsites:\n  - {host: site.test, backends: [http://a.test, http://b.test]}\n", func(w rig) {
		done := make(chan result, 10)
		for range 10 {
			go func() { done <- w.Get("http://site.test/") }()
		}
		synctest.Wait()
		w.Reload("sites: []\n")
		time.Sleep(30 * time.Second)
		w.Reload("sites:\n  - {host: site.test, backends: [http://c.test, http://d.test, http://e.test]}\n")
		for range 10 {
			if a := <-done; a.Status != 503 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
		w.idle("site.test")
	})
}

func TestAReloadOfTheBreakersRuleHoldsForWhatWaitsToo(t *testing.T) {
	const yaml = "queue: {wait: 2h}\nretry: {attempts: 1, base: 1ms}\nbreaker: {failures: %d, pause: 10m}\nsites:\n  - {host: site.test, limits: [{requests: 1, per: 10s, as: paced}]}\n"
	sites := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }
	run(t, sites, fmt.Sprintf(yaml, 5), func(w rig) {
		for range 40 {
			go w.Get("http://site.test/")
		}
		synctest.Wait()
		w.Reload(fmt.Sprintf(yaml, 6))
		for range 40 {
			go w.Get("http://site.test/", "Abide-Priority", "3", "Abide-Client", "b")
		}
		time.Sleep(8 * time.Minute)
		// 6 open it, and single ones try it until it is given up.
		if n := w.Asked.Load(); n < 18 || n > 19 {
			t.Errorf("a site that always fails was asked %d times", n)
		}
		if open := w.Breakers(); len(open) != 1 || open[0].State != "open" {
			t.Errorf("%+v", open)
		}
		go w.Close()
	})
}

func TestAReloadThatSwitchesBreakersOffForgetsThem(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }
	run(t, sites, "retry: {attempts: 1, base: 1ms}\nbreaker: {failures: 2, pause: 30s}\n", func(w rig) {
		w.Get("http://site.test/")
		if n := len(w.Breakers()); n != 1 {
			t.Fatalf("%d breakers", n)
		}
		w.Reload("breaker: {failures: 0}\n")
		if open := w.Breakers(); len(open) != 0 {
			t.Errorf("%+v", open)
		}
	})
}
