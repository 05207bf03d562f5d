package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestALimitOfOneRouteHoldsNoOthers: a service that announces nothing allows 4 searches in 4 seconds, and everything else. Its
// limit was taken for one of the whole site: a crawl of both took more than four times as long as needed, with up to 123 refusals.
func TestALimitOfOneRouteHoldsNoOthers(t *testing.T) {
	for _, one := range []struct {
		name    string
		s       *silent
		all     bool // the limit is one of all routes
		refused int
	}{
		{"of one route", &silent{amount: 4, window: 4 * time.Second}, false, 12},
		{"of all", &silent{amount: 20, window: 4 * time.Second}, true, 12}, // the first refusal is taken for the route's
	} {
		t.Run(one.name, func(t *testing.T) {
			const requests = 240
			serve := func(rw http.ResponseWriter, r *http.Request) {
				if one.all || strings.HasPrefix(r.URL.Path, "/search") {
					one.s.serve(rw, r)
				} else {
					elapse(30 * time.Millisecond)
				}
			}
			run(t, serve, "", func(w rig) {
				began := time.Now()
				var clients sync.WaitGroup
				var next atomic.Int64
				for range 8 {
					clients.Go(func() {
						for n := next.Add(1); n <= requests; n = next.Add(1) {
							path := []string{"search", "items", "users", "lists"}[n%4]
							if a := w.Get(fmt.Sprintf("http://site.test/%s/%d", path, n)); a.Status != http.StatusOK {
								t.Errorf("a request is answered %d: %s", a.Status, a.Body)
								return
							}
						}
					})
				}
				clients.Wait()
				took, ideal := time.Since(began), one.s.ideal(one.s.accepted)
				if took > ideal*3/2 || one.s.refused > one.refused {
					t.Errorf("%v, %d refused; the least is %v", took, one.s.refused, ideal)
				}
			})
		})
	}
}
