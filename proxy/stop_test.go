package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestPermitsThatAreOutDoNotHoldTheEnd(t *testing.T) {
	bubble(t, echoing, "defaults: {limits: [], learn: false}\nsites:\n  - {host: site.test, limits: [{concurrency: 5}]}\n", func(w *bubbleProxy) {
		for range 5 {
			_, err := w.server.Permit(w.t.Context(), status.PermitAsk{URL: "http://site.test/", Priority: -1})
			must(t, err)
		}
		waiting := make(chan error)
		go func() {
			_, err := w.server.Permit(w.t.Context(), status.PermitAsk{URL: "http://site.test/", Wait: time.Hour, Priority: -1})
			waiting <- err
		}()
		synctest.Wait()
		began := time.Now()
		w.stop()
		err := <-waiting
		synctest.Wait()
		if n := w.server.OpenPermits(); n != 0 || time.Since(began) > time.Second {
			t.Errorf("%d are out after %v", n, time.Since(began))
		}
		var denied *status.Denied
		if errors.As(err, &denied) && denied.Reason != "draining" {
			t.Errorf("%+v", denied)
		}
		if _, err := w.server.Permit(w.t.Context(), status.PermitAsk{URL: "http://site.test/"}); !errors.As(err, &denied) || denied.Reason != "draining" || denied.Status != http.StatusServiceUnavailable {
			t.Errorf("%v", err)
		}
	})
}

func TestRobotsAStopEndsTheAsking(t *testing.T) {
	sites := func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			<-r.Context().Done()
		}
	}
	bubble(t, sites, "queue: {wait: 2h}\nsites:\n  - {host: site.test, robots: on}\n", func(w *bubbleProxy) {
		var all sync.WaitGroup
		c := w.client()
		all.Go(func() { w.get(c, "http://site.test/") })
		synctest.Wait()
		w.stop()
		all.Wait()
		if took := time.Since(w.began); took != 0 {
			t.Errorf("the stop waited %v for robots.txt", took)
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
