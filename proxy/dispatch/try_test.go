package dispatch_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestASiteThatFailsIsTriedAtOnceWhenTheOperatorSaysSo: the requests that wait for the end of its pause go on, one first.
func TestASiteThatFailsIsTriedAtOnceWhenTheOperatorSaysSo(t *testing.T) {
	for name, fails := range map[string]int{"out of order": http.StatusBadGateway, "refuses each": http.StatusServiceUnavailable, "blocks": http.StatusForbidden} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			run(t, func(rw http.ResponseWriter, _ *http.Request) {
				if elapse(50 * time.Millisecond); down.Load() {
					rw.WriteHeader(fails)
				}
			}, "queue: {wait: 1h}", func(w rig) {
				operator := w.Operator
				for range 30 { // what succeeds usually
					w.Get("http://site.test/")
				}
				if operator.TrySite("site.test") == nil {
					t.Error("a site that works is tried")
				}
				down.Store(true)
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						if a := w.Get("http://site.test/", "Abide-Max-Wait", "1h"); a.Status != 200 {
							t.Errorf("%d %s", a.Status, a.Body)
						}
					})
				}
				elapse(90 * time.Second)
				e, err := w.Explain("GET", httptest.NewRequest("GET", "http://site.test/", nil).URL, "")
				if e = e.Normalize(time.Now()); err != nil || !strings.Contains(strings.Join(e.WouldChange, "\n"), `; "abide try site.test" sends one at once`) {
					t.Errorf("%v %q, %q", err, e.BlockedBy, e.WouldChange)
				}
				asked := w.Asked.Load()
				must(t, operator.TrySite("site.test"))
				elapse(100 * time.Millisecond)
				if n := w.Asked.Load() - asked; n != 1 {
					t.Errorf("%d requests have tried", n)
				}
				down.Store(false)
				must(t, operator.TrySite("site.test"))
				began := time.Now()
				all.Wait()
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("the requests that waited took %v more", took)
				}
			})
		})
	}
}
