package proxy

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A host that has announced a limit and refused a request gets no request before the
// announced reset, however many other hosts have had requests since.
func TestAHostThatRefusesByWhatItAnnouncedIsLeftAloneAmongVeryMany(t *testing.T) {
	const hosts = 5120 // a quarter more than the sites whose routes stay in memory
	refusing := func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		h.Set("RateLimit-Limit", "60")
		h.Set("RateLimit-Remaining", "0")
		h.Set("RateLimit-Reset", "3600")
		h.Set("Retry-After", "3600")
		rw.WriteHeader(http.StatusTooManyRequests)
	}
	bubble(t, refusing, "queue: {wait: 1s}\n", func(w *bubbleProxy) {
		w.get200(hosts, "h%d.test")
		asked := w.asked.Load()
		c := w.client()
		for n := range 20 {
			w.get(c, fmt.Sprintf("http://h%d.test/", n))
		}
		if again := w.asked.Load() - asked; again != 0 {
			t.Errorf("%d of 20 hosts were asked again", again)
		}
		elapse(2 * time.Hour)
		if a := w.get(c, "http://h0.test/"); w.asked.Load() == asked {
			t.Errorf("a host is never asked again: %d %s", a.status, a.body)
		}
	})
}
