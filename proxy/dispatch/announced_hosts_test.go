package dispatch_test

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
	run(t, refusing, "queue: {wait: 1s}\n", func(w rig) {
		w.get200(hosts, "h%d.test")
		asked := w.Asked.Load()
		for n := range 20 {
			w.Get(fmt.Sprintf("http://h%d.test/", n))
		}
		if again := w.Asked.Load() - asked; again != 0 {
			t.Errorf("%d of 20 hosts were asked again", again)
		}
		elapse(2 * time.Hour)
		if a := w.Get("http://h0.test/"); w.Asked.Load() == asked {
			t.Errorf("a host is never asked again: %d %s", a.Status, a.Body)
		}
	})
}
