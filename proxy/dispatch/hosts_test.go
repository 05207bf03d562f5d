package dispatch_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
)

// knownHosts counts what the server remembers of hosts, by kind.
func (w rig) knownHosts() map[string]int {
	sites, held := w.Gate().Len()
	counts := map[string]int{"sites of the queue": sites, "holds": held}
	maps.Copy(counts, w.Sizes())
	return counts
}

func (w rig) get200(hosts int, name string) {
	for n := range hosts {
		w.Get(fmt.Sprintf("http://"+name+"/", n))
	}
}

func TestHostsThatAreAskedOnceAreForgotten(t *testing.T) {
	const hosts = 500
	for _, kind := range []struct {
		name   string
		site   http.HandlerFunc
		config string
		after  time.Duration
	}{
		{"silent", func(http.ResponseWriter, *http.Request) {}, "", time.Minute},
		{"failing", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotFound) }, "", time.Minute},
		{"refusing for 30 s", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "30")
			rw.WriteHeader(http.StatusTooManyRequests)
		}, "queue: {wait: 1s}\n", 3 * time.Minute},
	} {
		t.Run(kind.name, func(t *testing.T) {
			run(t, kind.site, kind.config, func(w rig) {
				w.get200(hosts, "h%d.test")
				if counts := w.knownHosts(); counts["sites of the queue"] < hosts/2 {
					t.Logf("at once: %v", counts) // some are forgotten as others come
				}
				time.Sleep(kind.after)
				synctest.Wait()
				for what, n := range w.knownHosts() {
					if n > 0 {
						t.Errorf("%v after the last request: %d %s", kind.after, n, what)
					}
				}
			})
		})
	}
}

func TestHostsWithSomethingToRememberAreNotForgotten(t *testing.T) {
	var asked []string
	site := func(rw http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Host)
		h := rw.Header()
		switch r.Host {
		case "cooling.test":
			h.Set("Retry-After", "7200")
			rw.WriteHeader(http.StatusTooManyRequests)
		case "learned.test":
			h.Set("RateLimit-Limit", "1")
			h.Set("RateLimit-Remaining", "0")
			h.Set("RateLimit-Reset", "7200")
		}
	}
	config := "queue: {wait: 1s}\nsites:\n  - {host: spent.test, limits: [{requests: 1, per: 2h}]}\n"
	run(t, site, config, func(w rig) {
		names := []string{"cooling.test", "learned.test", "spent.test"}
		for _, name := range names {
			w.Get("http://" + name + "/")
		}
		w.get200(500, "h%d.test")
		time.Sleep(time.Hour)
		w.get200(500, "i%d.test")
		asked = nil
		for _, name := range names {
			if got := w.Get("http://" + name + "/"); got.Status != http.StatusTooManyRequests {
				t.Errorf("%s is answered %d", name, got.Status)
			}
		}
		if len(asked) > 0 {
			t.Errorf("sent to %s", strings.Join(asked, ", "))
		}
	})
}

var (
	_ queue.Storable = (*ledger.Ledger)(nil)
	_ queue.Storable = (*ledger.HiddenRate)(nil)
)
