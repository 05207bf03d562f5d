package proxy

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
	bubble(t, echoing, groupConfig("5", ""), func(w *bubbleProxy) {
		w.dialed = func(host string) error {
			if strings.HasPrefix(host, "dead.") {
				return &upstream.Error{Kind: upstream.Resolve}
			}
			return nil
		}
		for range 3 {
			w.get(w.client(), "http://dead.example.com/")
		}
		began := time.Since(w.began)
		if a := w.get(w.client(), "http://alive.example.com/"); a.status != 200 || a.at-began > time.Second {
			t.Errorf("another host of the group: %d after %v, %s", a.status, a.at-began, a.body)
		}
		if a := w.get(w.client(), "http://dead.example.com/"); a.status != 503 || !strings.Contains(a.body, "urn:abide:breaker") {
			t.Errorf("the dead one: %d %s", a.status, a.body)
		}
		if open := w.server.Breakers(); len(open) != 1 || open[0].Site != "example.com" || open[0].Backend != "dead.example.com" || open[0].State != "open" {
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
	bubble(t, sites, strings.Replace(groupConfig("1", "{concurrency: 1}"), "attempts: 1", "attempts: 0", 1), func(w *bubbleProxy) {
		first, second := make(chan clientResult, 1), make(chan clientResult, 1)
		go func() { first <- w.get(w.client(), "http://a.example.com/") }()
		synctest.Wait()
		go func() { second <- w.get(w.client(), "http://a.example.com/") }()
		synctest.Wait()
		if a := <-first; a.status != 502 || a.header.Get("Abide-Attempts") != "1" {
			t.Errorf("the first: %d %v", a.status, a.header)
		}
		if a := <-second; a.status != 200 || a.header.Get("Abide-Attempts") != "1" || a.at < time.Minute || w.asked.Load() != 2 {
			t.Errorf("the second: %d after %v, %v, %d requests", a.status, a.at, a.header, w.asked.Load())
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
	bubble(t, sites, strings.Replace(groupConfig("1", "{concurrency: 1}"), "attempts: 1", "attempts: 0", 1), func(w *bubbleProxy) {
		done := make(chan clientResult, 2)
		for range 2 { // one fails, the other learns of that when it may be sent
			go func() { done <- w.get(w.client(), "http://a.example.com/") }()
		}
		<-done
		synctest.Wait()
		if n := len(w.server.Holds("", 1000)); n != 1 {
			t.Fatalf("%d requests wait", n)
		}
		if a := w.get(w.client(), "http://b.example.com/"); a.status != 200 || a.at > 2*time.Second {
			t.Errorf("%d after %v", a.status, a.at)
		}
		<-done
	})
}
