package dispatch_test

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnOutageAndTheRecoveryFromIt(t *testing.T) {
	down := atomic.Bool{}
	var probes, most, flying atomic.Int64
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.Host != "site.test" {
			rw.WriteHeader(503)
			return
		}
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
	run(t, sites, "breaker: {failures: 10, pause: 30s}\nretry: {attempts: 4, base: 500ms}\n", func(w rig) {
		down.Store(true)
		var all sync.WaitGroup
		codes := make(chan int, 100)
		for range 20 {
			all.Go(func() { codes <- w.Get("http://site.test/").Status })
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		asked := w.Asked.Load()
		if asked > 40 {
			t.Errorf("%d requests to a site that is down", asked)
		}
		began := time.Now()
		a := w.Get("http://site.test/new", "Abide-Max-Wait", "0s")
		if a.Status != 503 || a.Header.Get("Retry-After") == "" || time.Since(began) > time.Second || w.Asked.Load() != asked {
			t.Errorf("a new request: %d after %v: %v %s", a.Status, time.Since(began), a.Header, a.Body)
		}
		if b := w.Breakers(); len(b) != 1 || b[0].Site != "site.test" || b[0].State != "open" {
			t.Errorf("%+v", b)
		}
		if a := w.Get("http://other.test/"); a.Status != 503 || a.Attempts != 5 {
			t.Errorf("another site: %d %v", a.Status, a.Header) // which is down as well, but has its own breaker
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
		if good < 20 {
			t.Errorf("%d of 20 got through the outage", good)
		}
		if most.Load() != 1 {
			t.Errorf("%d at once when it came back", most.Load())
		}
		if time.Since(w.Began) > 65*time.Second {
			t.Errorf("after %v", time.Since(w.Began))
		}
		if len(w.Breakers()) > 1 {
			t.Errorf("%+v", w.Breakers())
		}
		again := 0
		for _, line := range w.Log.AllEntries() {
			if strings.HasPrefix(line.Message, "site.test answers again after ") && line.Data["site"] == "site.test" {
				again++
			}
		}
		if again != 1 {
			t.Errorf("the log says %d times that the site answers again", again)
		}
	})
}

// TestAnOutageFromTheStartLosesLittle: what comes while the site is left alone waits like what has failed, until the site is
// given up. With one client, two requests use up their attempts before the site is left alone.
func TestAnOutageFromTheStartLosesLittle(t *testing.T) {
	for clients, lost := range map[int]int{1: 2, 8: 0, 32: 0} {
		run(t, func(rw http.ResponseWriter, _ *http.Request) {
			if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < 20*time.Second {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}, "", func(w rig) {
			var left, failed atomic.Int64
			left.Store(200)
			w.requestTogether(clients, func(int) (last result) {
				for left.Add(-1) >= 0 {
					if last = w.Get("http://site.test/"); last.Status != http.StatusOK {
						failed.Add(1)
					}
				}
				return last
			})
			if took := time.Since(w.Began); int(failed.Load()) > lost || took > 40*time.Second {
				t.Errorf("%d clients: %d of 200 requests failed in %v", clients, failed.Load(), took)
			}
		})
	}
}

// TestALongOutageIsSaidAgain: at growing intervals, with what waits, and when it is over.
func TestALongOutageIsSaidAgain(t *testing.T) {
	var down atomic.Bool
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}, "breaker: {failures: 3}\n", func(w rig) {
		w.Get("http://site.test/")
		down.Store(true)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				for w.Get("http://site.test/").Status != http.StatusOK {
					time.Sleep(10 * time.Second)
				}
			})
		}
		time.Sleep(30 * time.Minute)
		down.Store(false)
		all.Wait()
		if lasted := w.Activity().Outages["site.test"].Lasted; lasted < 29*time.Minute || lasted > 35*time.Minute {
			t.Errorf("an outage of %v is counted", lasted)
		}
		var said []string
		for _, line := range w.Log.AllEntries() {
			if strings.Contains(line.Message, "site.test still fails, after ") || strings.HasPrefix(line.Message, "site.test answers again after ") {
				said = append(said, line.Message)
			}
		}
		// One request tries, and one client may pause after an answer.
		if len(said) != 3 || !regexp.MustCompile("it answered 503; [34] requests wait, and it is tried again at ").MatchString(said[0]) || !strings.Contains(said[2], "answers again after ") {
			t.Errorf("the log says %s", strings.Join(said, "\n"))
		}
	})
}

// TestALongOutageIsOneOutage: 503 may be a refusal for five minutes, and is a failure after them. The site is asked no more often
// then, and is left alone since the first of them.
func TestALongOutageIsOneOutage(t *testing.T) {
	var down atomic.Bool
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}, "", func(w rig) {
		for range 20 {
			w.Get("http://site.test/")
		}
		down.Store(true)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for w.Get("http://site.test/").Status != http.StatusOK {
					time.Sleep(10 * time.Second)
				}
			})
		}
		time.Sleep(290 * time.Second)
		before := w.Asked.Load()
		time.Sleep(2 * time.Minute)
		if asked := w.Asked.Load() - before; asked < 3 || asked > 6 {
			t.Errorf("%d requests in two minutes to a site that has failed for five", asked)
		}
		if b := w.Breakers(); len(b) != 1 || b[0].State != "open" && b[0].State != "half-open" || time.Since(b[0].Since) < 400*time.Second {
			t.Errorf("%+v", b)
		}
		down.Store(false)
		all.Wait()
		if lasted := w.Activity().Outages["site.test"].Lasted; lasted < 410*time.Second || lasted > 450*time.Second {
			t.Errorf("an outage of %v is counted", lasted)
		}
	})
}

// TestWhoWaitsForASiteThatStaysAwayHearsOfItInTheEnd: after several tries for others, too.
func TestWhoWaitsForASiteThatStaysAwayHearsOfItInTheEnd(t *testing.T) {
	var down atomic.Bool
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			rw.WriteHeader(http.StatusBadGateway)
		}
	}, "queue: {wait: 24h}\nbreaker: {failures: 3}\n", func(w rig) {
		w.Get("http://site.test/")
		down.Store(true)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if a := w.Get("http://site.test/"); a.Status == http.StatusOK || a.At > 30*time.Minute {
					t.Errorf("%d after %v", a.Status, a.At)
				}
			})
		}
		all.Wait()
	})
}

// A site that has answered nothing but 403 is asked rarely, and at its usual speed as soon as it answers something else.
func TestASiteThatForbidsAllFromTheStartIsAskedRarely(t *testing.T) {
	var opens atomic.Bool
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(10 * time.Millisecond)
		if !opens.Load() {
			rw.WriteHeader(http.StatusForbidden)
		}
	}, "", func(w rig) {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for time.Since(w.Began) < 5*time.Minute {
					if a := w.Get("http://site.test/"); a.Status != http.StatusForbidden {
						t.Errorf("%d: %s", a.Status, a.Body)
					}
				}
			})
		}
		all.Wait()
		if asked := w.Asked.Load(); asked > 16*30 {
			t.Errorf("%d requests in 5 minutes to a site that forbids all", asked)
		}
		opens.Store(true)
		w.Get("http://site.test/")
		began := time.Now()
		for range 20 {
			w.Get("http://site.test/")
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("20 requests in %v after it answers", took)
		}
	})
}

// TestASiteThatForbidsSomeAtRandomDoesNotForbidAll: the log does not flap, and has no time that is over.
func TestASiteThatForbidsSomeAtRandomDoesNotForbidAll(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		if chance.Float64() < .4 {
			rw.WriteHeader(http.StatusForbidden)
		}
	}, "", func(w rig) {
		for range 600 {
			w.Get("http://site.test/")
			time.Sleep(3 * time.Second)
			if b := w.Breakers(); len(b) > 0 && b[0].State != "" && b[0].State != "closed" {
				t.Errorf("after %v: %+v", time.Since(w.Began), b)
			}
		}
		for _, line := range w.Log.AllEntries() {
			if strings.Contains(line.Message, "fails") || strings.Contains(line.Message, "answers again") || strings.Contains(line.Message, "(in 0s)") {
				t.Error(line.Message)
			}
		}
	})
}

// Who waits for a name that does not resolve hears of it, and does not wait for its turn to fail, also where the host is one of
// several that are one site.
func TestASiteThatHasNeverAnsweredIsGivenUp(t *testing.T) {
	for _, rules := range []string{"", "sites: [{host: site.test, group: domain}]\n"} {
		run(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }, "breaker: {failures: 10, pause: 30s}\nretry: {attempts: 4, base: 500ms}\n"+rules, func(w rig) {
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					a := w.Get("http://site.test/")
					if took := time.Since(w.Began); a.Status != 503 || took > time.Minute {
						t.Errorf("%d after %v", a.Status, took)
					}
				})
			}
			all.Wait()
			if took := time.Since(w.Began); took < 20*time.Second {
				t.Errorf("it was given up after %v", took)
			}
			for _, line := range w.Log.AllEntries() {
				if strings.Contains(line.Message, "backend") {
					t.Errorf("no backend is written: %s", line.Message)
				}
			}
		})
	}
}
