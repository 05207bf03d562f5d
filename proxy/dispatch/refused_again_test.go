package dispatch_test

import (
	"net/http"
	"testing"
	"time"
)

func TestARequestThatIsRefusedAgainAndAgainIsHeldAsOneRequest(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "5")
		rw.WriteHeader(http.StatusTooManyRequests)
	}
	run(t, sites, "queue: {wait: 1m}\n", func(w rig) {
		w.Get("http://site.test/")
		if w.Asked.Load() < 3 {
			t.Errorf("%d attempts", w.Asked.Load())
		}
		var most time.Duration
		for _, h := range w.Activity().Held {
			if h.Requests != 1 || h.Longest != h.Total {
				t.Errorf("held: %+v", h)
			}
			most = max(most, h.Total)
		}
		if most < 20*time.Second {
			t.Errorf("one limit held the request for at most %v", most)
		}
	})
}
