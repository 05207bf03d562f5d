package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func poolOf(name string, tokens ...string) string {
	for i, one := range tokens {
		tokens[i] = fmt.Sprintf("{label: %s, secret: %s-secret}", one, one)
	}
	return fmt.Sprintf(`
queue: {wait: 2h}
pools:
  %s: {tokens: [%s], limits: [{concurrency: 2, by: token}]}
sites:
  - {host: site.test, pool: %s, insecure: true}
`, name, strings.Join(tokens, ", "), name)
}

// Whatever happens to the pools, waiting requests use the newest pool's tokens.
func TestWhatWaitsGoesWithTheTokensOfTheNewestPool(t *testing.T) {
	const bare = "queue: {wait: 2h}\nsites:\n  - {host: site.test, limits: [{concurrency: 2}]}\n"
	steps := []struct{ yaml, of string }{
		{bare, ""},
		{poolOf("p", "pa", "pb", "pc"), "p"},
		{poolOf("q", "qa", "qb"), "q"},
		{poolOf("q", "qb", "qc", "qd"), "q"},
		{poolOf("p", "pz"), "p"},
		{bare, ""},
	}
	var mu sync.Mutex
	var reloaded []time.Time
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := len(reloaded)
		if got := secretOf(r); !strings.HasPrefix(got, steps[n].of) || (got == "") != (steps[n].of == "") {
			t.Errorf("%q after %d reloads", got, n)
		}
		mu.Unlock()
		elapse(3 * time.Second)
		if r.URL.Path == "/7" {
			rw.WriteHeader(401)
		}
	}, bare, func(w rig) {
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				if got := w.Get(fmt.Sprint("http://site.test/", i)); got.Status != 200 && i != 7 {
					t.Errorf("%d %s", got.Status, got.Body)
				}
			})
		}
		for _, step := range steps[1:] {
			elapse(3500 * time.Millisecond)
			mu.Lock() // no request arrives meanwhile
			w.Reload(step.yaml)
			reloaded = append(reloaded, time.Now())
			mu.Unlock()
		}
		all.Wait()
		w.idle("site.test")
	})
}
