package proxy

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
	bubble(t, sites, "queue: {wait: 1m}\n", func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/")
		if w.asked.Load() < 3 {
			t.Errorf("%d attempts", w.asked.Load())
		}
		var most time.Duration
		for _, h := range w.server.Activity().Held {
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
