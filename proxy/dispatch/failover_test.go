package dispatch_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

func TestAFailureIsTriedAtAnotherBackendAlsoWhereThatIsBusy(t *testing.T) {
	for _, balance := range []string{"adaptive", "round-robin", "least-loaded"} {
		for _, status := range []int{502, 504} {
			sites := func(rw http.ResponseWriter, r *http.Request) {
				if r.Host != "b.test" {
					rw.WriteHeader(status)
					return
				}
				elapse(200 * time.Millisecond)
			}
			run(t, sites, fmt.Sprintf(pool, balance, ""), func(w rig) {
				for i, a := range w.requestTogether(25, func(int) result { return w.Get("http://pool.test/") }) {
					if a.Status != 200 {
						t.Errorf("%s, %d: request %d got %d: %s", balance, status, i, a.Status, a.Body)
					}
				}
			})
		}
	}
}

func TestABackendThatFailedIsTriedAgainWhereNoOtherCanGoInTime(t *testing.T) {
	fails := true
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.Host == "a.test" && fails {
			fails = false
			rw.WriteHeader(502)
		}
	}
	const two = `
queue: {wait: 1m}
sites:
  - host: pool.test
    backends: ["http://a.test", {url: "http://b.test", limits: [{requests: 1, per: 24h}]}]
    balance: round-robin
`
	run(t, sites, two, func(w rig) {
		for i := range 4 {
			if a := w.Get("http://pool.test/"); a.Status != 200 || a.At > 30*time.Second {
				t.Errorf("request %d: %d after %v", i, a.Status, a.At)
			}
		}
	})
}

func TestARequestThatWaitsForABackendGoesElsewhereWhenThatFails(t *testing.T) {
	const two = `
breaker: {failures: 3, pause: 30s}
sites:
  - host: pool.test
    learn: false
    backends: ["http://a.test", {url: "http://b.test", limits: [{concurrency: 1}]}]
    balance: round-robin
`
	var well atomic.Bool
	sites := func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "b.test":
			elapse(2 * time.Second)
			well.Store(true)
			rw.WriteHeader(502)
		case !well.Load():
			rw.WriteHeader(502)
		}
	}
	run(t, sites, two, func(w rig) {
		for i, a := range w.requestTogether(12, func(int) result { return w.Get("http://pool.test/") }) {
			if a.Status != 200 || a.At > 10*time.Second {
				t.Errorf("request %d: %d after %v", i, a.Status, a.At)
			}
		}
	})
}
