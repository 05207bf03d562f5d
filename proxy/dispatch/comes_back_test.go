package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// An outage of ten seconds costs no client an answer, and no longer than it takes to notice its end.
func TestAnOutageOfTenSecondsLosesNothing(t *testing.T) {
	began := time.Time{}
	down := func() bool {
		since := time.Since(began)
		return !began.IsZero() && since > 5*time.Second && since < 15*time.Second
	}
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		elapse(50 * time.Millisecond)
		if down() {
			rw.WriteHeader(http.StatusBadGateway)
		}
	}, "", func(w rig) {
		began = time.Now()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for time.Since(began) < 40*time.Second {
					if a := w.Get("http://site.test/"); a.Status != 200 {
						t.Errorf("%d after %v: %s", a.Status, time.Since(began), a.Body)
					}
					elapse(100 * time.Millisecond)
				}
			})
		}
		// Who does not wait is told at once.
		elapse(7 * time.Second)
		if a := w.Get("http://site.test/", "Abide-Max-Wait", "100ms"); a.Status != 503 || !strings.Contains(a.Body, "urn:abide:breaker") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		all.Wait()
		if took := time.Since(began); took > 50*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestConnectionsThatAreRefusedForSecondsLoseNothing: with so few clients that their attempts are used up before the breaker opens.
func TestConnectionsThatAreRefusedForSecondsLoseNothing(t *testing.T) {
	for _, clients := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			run(t, func(http.ResponseWriter, *http.Request) { elapse(50 * time.Millisecond) }, "", func(w rig) {
				w.Send = func(r *http.Request) (*http.Response, error) {
					if at := time.Since(w.Began); at > 5*time.Second && at < 25*time.Second {
						return nil, &upstream.Error{Kind: upstream.Refused}
					}
					return w.Answer(r)
				}
				w.requestTogether(clients, func(int) (last result) {
					for last.At < 40*time.Second {
						if last = w.Get("http://site.test/"); last.Status != 200 {
							t.Errorf("%d after %v: %s", last.Status, last.At, last.Body)
						}
					}
					return last
				})
			})
		})
	}
}

// A site that does not come back fails requests at once after some minutes.
func TestASiteThatDoesNotComeBackFailsAtOnceAfterMinutes(t *testing.T) {
	began := time.Time{}
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		if !began.IsZero() {
			rw.WriteHeader(http.StatusBadGateway)
		}
	}, "", func(w rig) {
		w.Get("http://site.test/")
		began = time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if a := w.Get("http://site.test/", "Abide-Max-Wait", "4m"); a.Status < 500 {
					t.Errorf("%d", a.Status)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("it took %v until all have failed", took)
		}
		asked := w.Asked.Load()
		if a := w.Get("http://site.test/"); a.Status != 503 || !strings.Contains(a.Body, "urn:abide:breaker") || w.Asked.Load() != asked {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
}
