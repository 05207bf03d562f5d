package dispatch_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAProbeWhoseClientLeavesIsFollowedByAnother(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	sites := func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return
		}
		if down.Load() {
			rw.WriteHeader(503)
		}
	}
	run(t, sites, "breaker: {failures: 2, pause: 30s}\nretry: {attempts: 1}\n", func(w rig) {
		for range 2 {
			w.Get("http://site.test/")
		}
		for _, patience := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond} {
			time.Sleep(31 * time.Second)
			ctx, leave := context.WithTimeout(w.T.Context(), patience)
			w.Do(ctx, "PUT", "http://site.test/", "")
			leave()
			synctest.Wait()
		}
		down.Store(false)
		time.Sleep(31 * time.Second)
		if a := w.Get("http://site.test/"); a.Status != 200 || len(w.Breakers()) != 0 {
			t.Errorf("%d %s %v", a.Status, a.Body, w.Breakers())
		}
		w.idle("site.test")
	})
}

func TestWhatWaitsBehindASlowProbeIsSentWhenThatHasSucceeded(t *testing.T) {
	var down, probed atomic.Bool
	down.Store(true)
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			rw.WriteHeader(503)
		} else if probed.CompareAndSwap(false, true) {
			time.Sleep(time.Minute)
		}
	}
	run(t, sites, "retry: {attempts: 1, base: 1ms}\nbreaker: {failures: 4, pause: 30s}\n", func(w rig) {
		for range 2 {
			w.Get("http://site.test/")
		}
		asked := w.Asked.Load()
		down.Store(false)
		time.Sleep(31 * time.Second)
		done := make(chan result, 20)
		for range 20 {
			go func() { done <- w.Get("http://site.test/") }()
		}
		for range 20 {
			if a := <-done; a.Status != 200 || a.At > 2*time.Minute || a.Attempts != 1 {
				t.Errorf("%d after %v, %v", a.Status, a.At, a.Header)
			}
		}
		if n := w.Asked.Load() - asked; n != 20 {
			t.Errorf("%d requests for 20 answers", n)
		}
	})
}
