package dispatch_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
)

const oneDomain = "retry: {attempts: 1, base: 1ms}\nbreaker: {failures: %FAILURES, pause: 1m}\nsites:\n  - {host: \"*.example.com\", group: domain, limits: [%LIMITS]}\n"

// groupConfig is a configuration in which many hosts are one site.
func groupConfig(failures, limits string) string {
	return strings.NewReplacer("%FAILURES", failures, "%LIMITS", limits).Replace(oneDomain)
}

func TestOneDeadHostOfAGroupLeavesTheOthersAlone(t *testing.T) {
	run(t, echoing, groupConfig("5", ""), func(w rig) {
		w.Send = func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Host, "dead.") {
				return nil, &upstream.Error{Kind: upstream.Resolve}
			}
			return w.Answer(r)
		}
		for range 3 {
			w.Get("http://dead.example.com/")
		}
		began := time.Since(w.Began)
		if a := w.Get("http://alive.example.com/"); a.Status != 200 || a.At-began > time.Second {
			t.Errorf("another host of the group: %d after %v, %s", a.Status, a.At-began, a.Body)
		}
		if a := w.Get("http://dead.example.com/"); a.Status != 503 || !strings.Contains(a.Body, "urn:abide:breaker") {
			t.Errorf("the dead one: %d %s", a.Status, a.Body)
		}
		if open := w.Breakers(); len(open) != 1 || open[0].Site != "example.com" || open[0].Backend != "dead.example.com" || open[0].State != "open" {
			t.Errorf("%+v", open)
		}
	})
}

func TestAbideAttemptsCountsWhatWasSent(t *testing.T) {
	failed := false
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if !failed {
			failed = true
			time.Sleep(time.Second)
			rw.WriteHeader(502)
		}
	}
	// The second request has its turn when the first has failed, and is told to wait
	// for the breaker: that is not an attempt.
	run(t, sites, strings.Replace(groupConfig("1", "{concurrency: 1}"), "attempts: 1", "attempts: 0", 1), func(w rig) {
		first, second := make(chan result, 1), make(chan result, 1)
		go func() { first <- w.Get("http://a.example.com/") }()
		synctest.Wait()
		go func() { second <- w.Get("http://a.example.com/") }()
		synctest.Wait()
		if a := <-first; a.Status != 502 || a.Attempts != 1 {
			t.Errorf("the first: %d %v", a.Status, a.Header)
		}
		if a := <-second; a.Status != 200 || a.Attempts != 1 || a.At < 2*time.Second || w.Asked.Load() != 2 {
			t.Errorf("the second: %d after %v, %v, %d requests", a.Status, a.At, a.Header, w.Asked.Load())
		}
	})
}

func TestWhoWaitsForABrokenHostHoldsNoOtherHostOfItsGroupUp(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.Host == "a.example.com" {
			time.Sleep(time.Second)
			rw.WriteHeader(502)
		}
	}
	run(t, sites, strings.Replace(groupConfig("1", "{concurrency: 1}"), "attempts: 1", "attempts: 0", 1), func(w rig) {
		done := make(chan result, 2)
		for range 2 { // one fails, the other learns of that when it may be sent
			go func() { done <- w.Get("http://a.example.com/") }()
		}
		<-done
		synctest.Wait()
		if n := len(w.Holds("", 1000)); n != 1 {
			t.Fatalf("%d requests wait", n)
		}
		if a := w.Get("http://b.example.com/"); a.Status != 200 || a.At > 2*time.Second {
			t.Errorf("%d after %v", a.Status, a.At)
		}
		<-done
	})
}
