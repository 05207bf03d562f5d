package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// refuser is a site that refuses everything for 30 seconds from its first request on.
type refuser struct {
	mu   sync.Mutex
	from time.Time
	come []time.Duration // requests, after the first one
}

func (r *refuser) serve(rw http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.from.IsZero() {
		r.from = now
	}
	since := now.Sub(r.from)
	r.come = append(r.come, since)
	if since < 30*time.Second {
		rw.Header().Set("Retry-After", "30")
		rw.WriteHeader(429)
	}
}

// storeWithoutNews is a store that delivers no news.
type storeWithoutNews struct{ store.Store }

// When a site refuses an instance, the other instances wait as well, also those that have
// never used the site, with a rule and without, and with the store's news or without.
func TestACooldownReachesWhoHasNotMetTheSite(t *testing.T) {
	for name, yaml := range map[string]string{
		"without a rule":         "",
		"a limit that is shared": "sites:\n  - {host: site.test, limits: [{requests: 100, per: 1m}]}\n",
		"a limit that is not":    "sites:\n  - {host: site.test, limits: [{concurrency: 5}]}\n",
	} {
		for _, heard := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", heard: ", heard), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var shared store.Store = reference.New(nil)
					if !heard {
						shared = storeWithoutNews{shared}
					}
					r := &refuser{}
					runFleet(t, 3, shared, r.serve, yaml, func(all []rig) {
						if heard { // so long that nothing is asked any more
							elapse(time.Hour)
						}
						var clients sync.WaitGroup
						for i, w := range all {
							clients.Go(func() {
								elapse(time.Duration(i) * 2 * time.Second)
								within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
								defer cancel()
								if got := w.Do(within, "GET", "http://site.test/x", ""); got.Status != 200 {
									t.Errorf("instance %d: %+v", i, got)
								}
							})
						}
						clients.Wait()
					})
					for _, at := range r.come[1:] {
						if at < 30*time.Second {
							t.Errorf("a request comes after %v", at)
						}
					}
				})
			})
		}
	}
}
