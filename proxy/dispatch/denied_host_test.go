package dispatch_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A token that one host of a pool does not accept still goes to the others.
func TestATokenThatOneHostDeniesGoesToTheOthers(t *testing.T) {
	var mu sync.Mutex
	used := map[string]int{} // :: host and token → requests
	sites := func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		used[r.Host+" "+token]++
		if r.Host == "one.test" && token == "s2" {
			rw.WriteHeader(http.StatusUnauthorized)
		}
	}
	yaml := `
pools:
  x: {tokens: [{label: alice, secret: s1}, {label: carol, secret: s2}]}
sites:
  - {host: one.test, pool: x, insecure: true}
  - {host: two.test, pool: x, insecure: true}
`
	run(t, sites, yaml, func(w rig) {
		for range 20 {
			for _, host := range []string{"one.test", "two.test", "two.test"} {
				if a := w.Get("http://" + host + "/"); a.Status != 200 {
					t.Fatalf("%s: %d", host, a.Status)
				}
			}
			elapse(time.Second)
		}
		if used["one.test s2"] != 1 || used["two.test s2"] < 8 || used["two.test s1"] < 8 {
			t.Errorf("%v", used)
		}
		pool := w.Pools()[0]
		if carol := pool.Find("carol"); carol.State != "quarantined" || carol.DeniedBy != "one.test" || carol.Reason() != "401 by one.test" {
			t.Errorf("%+v", carol)
		}
	})
}
