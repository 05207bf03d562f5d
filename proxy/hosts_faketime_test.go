package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/queue"
)

// hostsKept are what the server has of hosts, by where it has it.
func (w *world) hostsKept() map[string]int {
	s := w.server
	sites, held := s.gate.Len()
	kept := map[string]int{"sites of the queue": sites, "holds": held}
	s.purses.mu.Lock()
	kept["byte budgets"] = len(s.purses.known)
	s.purses.mu.Unlock()
	s.usages.mu.Lock()
	kept["rates of use"] = len(s.usages.known)
	s.usages.mu.Unlock()
	s.flights.open.Range(func(_, _ any) bool { kept["shared requests"]++; return true })
	s.activity.mu.Lock()
	kept["sites of the log"] = len(s.activity.sites.sites) + len(s.activity.sites.lines)
	s.activity.mu.Unlock()
	return kept
}

func (w *world) get200(hosts int, name string) {
	c := w.client()
	for n := range hosts {
		answer, err := c.Get(fmt.Sprintf("http://"+name+"/", n))
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
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
			bubble(t, kind.site, kind.config, func(w *world) {
				w.get200(hosts, "h%d.test")
				if kept := w.hostsKept(); kept["sites of the queue"] < hosts/2 {
					t.Logf("at once: %v", kept) // some leave as others come
				}
				time.Sleep(kind.after)
				synctest.Wait()
				for what, n := range w.hostsKept() {
					if n > 0 {
						t.Errorf("%v after the last request: %d %s", kind.after, n, what)
					}
				}
			})
		})
	}
}

func TestHostsLeaveAsSoonWhenTheyAreLookedAtMoreSeldom(t *testing.T) {
	for since, want := range map[time.Duration]int{
		0: tidyParts, sampleEvery: tidyParts, 3 * sampleEvery: 3 * tidyParts, time.Minute: queue.Parts, time.Hour: queue.Parts,
	} {
		if got := partsAfter(since); got != want {
			t.Errorf("%d parts after %v, not %d", got, since, want)
		}
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
	bubble(t, site, config, func(w *world) {
		names := []string{"cooling.test", "learned.test", "spent.test"}
		for _, name := range names {
			w.get(w.client(), "http://"+name+"/")
		}
		w.get200(500, "h%d.test")
		time.Sleep(time.Hour)
		w.get200(500, "i%d.test")
		asked = nil
		for _, name := range names {
			if got := w.get(w.client(), "http://"+name+"/"); got.status != http.StatusTooManyRequests {
				t.Errorf("%s is answered %d", name, got.status)
			}
		}
		if len(asked) > 0 {
			t.Errorf("sent to %s", strings.Join(asked, ", "))
		}
	})
}

var (
	_ queue.Spareable = (*ledger.Ledger)(nil)
	_ queue.Spareable = (*ledger.Pace)(nil)
)
