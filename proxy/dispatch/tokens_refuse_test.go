package dispatch_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAPoolThatRefusesSaysWhen(t *testing.T) {
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		if secretOf(r) == "" {
			t.Error("a request without a token")
		}
		elapse(100 * time.Millisecond)
		if r.URL.Path == "/over" {
			elapse(11 * time.Second) // so that the refusals do not count together
			rw.Header().Set("Retry-After", "600")
			rw.WriteHeader(429)
		}
	}, poolWith(", exhausted: refuse, limits: [{requests: 50, per: 1h, by: token, as: fixed}]"), func(w rig) {
		var all sync.WaitGroup
		for i := range 40 { // most of the first requests wait for a response
			all.Go(func() {
				if got := w.Get(fmt.Sprint("http://site.test/", i%3)); got.Status != 200 {
					t.Errorf("%d %s", got.Status, got.Body)
				}
			})
		}
		all.Wait()
		must(t, w.SwitchToken("p", "a", false))
		must(t, w.SwitchToken("p", "b", false))
		if got := w.Get("http://site.test/1"); got.Status != 503 || time.Since(w.Began) > time.Minute {
			t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
		}
		must(t, w.SwitchToken("p", "b", true))
		must(t, w.SwitchToken("p", "a", true))
		if got := w.Get("http://site.test/1"); got.Status != 200 {
			t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
		}
		if got := w.Get("http://site.test/over"); got.Status != 503 || got.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
		}
		w.idle("site.test")
	})
}

// Without learning, tokens are still used in turn, and a refusal still counts.
func TestTokensOfASiteThatNothingIsLearnedFrom(t *testing.T) {
	seen := map[string]int{}
	var mu sync.Mutex
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[secretOf(r)]++
		rw.Header().Set("X-RateLimit-Remaining", "0")
		rw.Header().Set("X-RateLimit-Reset", "3600")
		switch n := seen[secretOf(r)]; {
		case secretOf(r) == "a-secret" && n == 5:
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		case secretOf(r) == "b-secret" && n == 7:
			rw.WriteHeader(401)
		}
	}, "queue: {wait: 2h}\ndefaults: {learn: false}\n"+poolWith(""), func(w rig) {
		for i := range 40 {
			if got := w.Get("http://site.test/"); got.Status != 200 || got.At > 2*time.Minute {
				t.Errorf("%d: %d after %v", i, got.Status, got.At)
			}
		}
		if len(seen) != 2 || seen["a-secret"] < 5 {
			t.Error(seen)
		}
		w.idle("site.test")
	})
}

// TestAPathThatIsForbiddenToAllCostsOneRequestEach and no token.
func TestAPathThatIsForbiddenToAllCostsOneRequestEach(t *testing.T) {
	var sent atomic.Int64
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin" {
			sent.Add(1)
			rw.WriteHeader(403)
		}
	}, poolWith(""), func(w rig) {
		const each = 40
		for n := range each {
			if got := w.Get("http://site.test/open"); got.Status != 200 {
				t.Errorf("%d: %d %s", n, got.Status, got.Body)
			}
			if got := w.Get("http://site.test/admin"); got.Status != 403 {
				t.Errorf("%d: %d %s", n, got.Status, got.Body)
			}
		}
		for _, token := range w.Tokens().Pools[0].Tokens {
			if token.State != "ready" {
				t.Errorf("%s is %s: %s", token.Label, token.State, token.Why)
			}
		}
		if got := sent.Load(); got > each+4 {
			t.Errorf("%d requests were sent %d times", each, got)
		}
		w.idle("site.test")
	})
}
