package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// secretOf is the secret of a request.
func secretOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

const poolOfTwo = `
pools:
  p: {tokens: [{label: a, secret: a-secret}, {label: b, secret: b-secret}]EXTRA}
sites:
  - {host: site.test, pool: p, insecure: true}
`

func poolWith(extra string) string { return strings.Replace(poolOfTwo, "EXTRA", extra, 1) }

func (w rig) stateOf(label string) string {
	w.T.Helper()
	for _, pool := range w.Pools() {
		for i := range pool.Tokens {
			if pool.Tokens[i].Label == label {
				return pool.Tokens[i].State
			}
		}
	}
	w.T.Fatalf("there is no token %s", label)
	return ""
}

// A page that no token may see says nothing about the only token.
func TestAForbiddenPageDoesNotCostTheOnlyTokenThatIsReady(t *testing.T) {
	asked := map[string]int{}
	var mu sync.Mutex
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path+" "+secretOf(r)]++
		mu.Unlock()
		switch {
		case secretOf(r) == "b-secret" && r.URL.Path == "/spent":
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(429)
		case r.URL.Path == "/forbidden":
			rw.WriteHeader(403)
		}
	}, "queue: {wait: 2h}\n"+poolWith(""), func(w rig) {
		for range 4 {
			w.Get("http://site.test/spent")
		}
		if got := w.Get("http://site.test/forbidden"); got.Status != 403 || got.At > time.Minute {
			t.Errorf("%d after %v", got.Status, got.At)
		}
		if n := asked["/forbidden a-secret"]; n > 3 {
			t.Errorf("it was asked %d times with one token", n)
		}
		if got := w.stateOf("a"); got != "ready" {
			t.Errorf("the token is %s", got)
		}
		w.idle("site.test")
	})
}

// A quarantine of a token does not apply to a site that has no pool any more.
func TestAPoolThatGoesWhileATokenIsDeniedLeavesTheSiteAlone(t *testing.T) {
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		if secretOf(r) == "" {
			return
		}
		elapse(2 * time.Second)
		rw.WriteHeader(401)
	}, poolWith(""), func(w rig) {
		var all sync.WaitGroup
		all.Go(func() {
			if got := w.Get("http://site.test/"); got.Status != 200 || got.At > 10*time.Second {
				t.Errorf("%d after %v", got.Status, got.At)
			}
		})
		elapse(time.Second)
		w.Reload("pools:\n  p: {tokens: [{label: a, secret: a-secret}, {label: b, secret: b-secret}]}\nsites:\n  - {host: site.test, limits: [{concurrency: 9}]}\n")
		all.Wait()
		if got := w.Get("http://site.test/"); got.Status != 200 || got.At > 10*time.Second {
			t.Errorf("the next: %d after %v", got.Status, got.At)
		}
		w.idle("site.test")
	})
}

func TestAPoolBecomesBackendsWhileRequestsWait(t *testing.T) {
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		elapse(2 * time.Second)
	}, strings.Replace(poolWith(", limits: [{concurrency: 1, by: token}]"), "insecure: true", "insecure: true", 1), func(w rig) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if got := w.Get("http://site.test/"); got.Status != 200 {
					t.Errorf("%d %s", got.Status, got.Body)
				}
			})
		}
		elapse(time.Second)
		w.Reload("sites:\n  - {host: site.test, backends: [\"http://one.test\", \"http://two.test\"]}\n")
		all.Wait()
		w.idle("site.test")
	})
}

func TestWhatIsObservedIsNotHeldForItsToken(t *testing.T) {
	var bare, dead int
	var mu sync.Mutex
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch secretOf(r) {
		case "":
			bare++
		case "a-secret":
			dead++
			rw.WriteHeader(401)
		}
	}, "mode: observe\n"+poolWith(", limits: [{requests: 2, per: 1h, by: token}]"), func(w rig) {
		for i := range 12 {
			if got := w.Get("http://site.test/"); got.Status != 200 && i > 0 || got.At > time.Second {
				t.Errorf("%d: %d after %v", i, got.Status, got.At)
			}
		}
		if dead > 1 {
			t.Errorf("%d requests went with a token that is quarantined", dead)
		}
		must(t, w.SwitchToken("p", "a", false))
		must(t, w.SwitchToken("p", "b", false))
		if got := w.Get("http://site.test/"); got.Status != 503 {
			t.Errorf("%d without any token", got.Status)
		}
		if bare > 0 {
			t.Errorf("%d requests went without a token", bare)
		}
		w.idle("site.test")
	})
}

// A refusal without a budget does not delay tokens.
func TestARefusalWithoutATokenIsNotOfThoseWithOne(t *testing.T) {
	var mu sync.Mutex
	var refused bool
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		if secretOf(r) != "" && time.Now().Before(began2000.Add(2*time.Minute)) {
			elapse(11 * time.Second) // so that the refusals do not count together
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case secretOf(r) == "" && r.URL.Path != "/ok":
			refused = true
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(429)
		case secretOf(r) != "" && time.Now().Before(began2000.Add(2*time.Minute)):
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		}
	}, "queue: {wait: 2h}\n"+poolWith(", anonymous: true"), func(w rig) {
		for i := range 5 {
			elapse(11 * time.Second)
			if got := w.Get("http://site.test/" + fmt.Sprint(i)); got.Status != 200 || got.At > 10*time.Minute {
				t.Errorf("%d: %d after %v", i, got.Status, got.At)
			}
		}
		if !refused {
			t.Error("nothing went without a token")
		}
		w.idle("site.test")
	})
}

var began2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestTokensThatAreAllDisabledComeBack(t *testing.T) {
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		if secretOf(r) == "" {
			t.Error("a request without a token")
		}
		elapse(time.Second)
	}, "queue: {wait: 2h}\n"+poolWith(", limits: [{concurrency: 1, by: token}]"), func(w rig) {
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				if got := w.Get(fmt.Sprint("http://site.test/", i)); got.Status != 200 {
					t.Errorf("%d %s", got.Status, got.Body)
				}
			})
		}
		ctx, cancel := context.WithCancel(w.T.Context())
		all.Go(func() { w.Do(ctx, "GET", "http://site.test/left", "") })
		elapse(1500 * time.Millisecond)
		must(t, w.SwitchToken("p", "a", false))
		must(t, w.SwitchToken("p", "b", false))
		elapse(time.Hour / 2)
		cancel()
		synctest.Wait()
		asked := w.Asked.Load()
		if asked > 6 {
			t.Errorf("%d were sent", asked)
		}
		must(t, w.SwitchToken("p", "b", true))
		all.Wait()
		if at := time.Since(w.Began); at > 40*time.Minute {
			t.Errorf("it took %v", at)
		}
		w.idle("site.test")
	})
}

// A limit that refuses a request with one token does not prevent the request with another.
func TestARequestThatTwoTokensWereRefusedForGoesWithAThird(t *testing.T) {
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		elapse(11 * time.Second)
		if s := secretOf(r); s != "s-4" {
			rw.Header().Set("Retry-After", "900")
			rw.WriteHeader(429)
		}
	}, `
queue: {wait: 2h}
pools:
  p: {tokens: [{label: a, secret: s-1}, {label: b, secret: s-2}, {label: c, secret: s-3}, {label: d, secret: s-4}]}
sites:
  - {host: site.test, pool: p, insecure: true}
`, func(w rig) {
		if got := w.Get("http://site.test/"); got.Status != 200 || got.At > time.Minute {
			t.Errorf("%d after %v", got.Status, got.At)
		}
		w.idle("site.test")
	})
}

// TestADeniedTokenIsSaidOnce: not by each request that was in flight with it when the site withdrew it.
func TestADeniedTokenIsSaidOnce(t *testing.T) {
	var withdrawn atomic.Bool
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		if withdrawn.Load() && secretOf(r) == "a-secret" {
			rw.WriteHeader(http.StatusUnauthorized)
		}
	}, poolWith(""), func(w rig) {
		for range 60 { // the site is known, and both tokens are accepted
			w.Get("http://site.test/items")
		}
		withdrawn.Store(true)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { w.Get("http://site.test/items") })
		}
		all.Wait()
		if n := strings.Count(w.lines(), "does not accept the token a of "); n != 1 {
			t.Errorf("it is said %d times: %s", n, w.lines())
		}
	})
}
