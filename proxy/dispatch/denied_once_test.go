package dispatch_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// poolLabelled has these tokens, whose secrets are their labels.
func poolLabelled(labels ...string) string {
	list := ""
	for _, label := range labels {
		list += fmt.Sprintf("{label: %[1]s, secret: %[1]s-secret}, ", label)
	}
	return "queue: {wait: 2h}\npools:\n  p: {tokens: [" + list + "]}\nsites:\n  - {host: site.test, pool: p, insecure: true}\n"
}

// A request that an untried token is denied for waits for another token, also where those that work have
// nothing left for the moment: the client never gets an answer that is due to the token.
func TestADeniedRequestWaitsForATokenThatIsSpent(t *testing.T) {
	for i := range 40 {
		programs := 4 + 4*(i%2)
		var mu sync.Mutex
		used, window := map[string]int{}, time.Time{}
		run(t, func(rw http.ResponseWriter, r *http.Request) {
			if secretOf(r) == "bad-secret" {
				elapse(10 * time.Millisecond)
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			elapse(100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now(); !now.Before(window) {
				clear(used)
				window = now.Add(20 * time.Second).Truncate(time.Second)
			}
			used[secretOf(r)]++
			rw.Header().Set("X-Rate-Limit-Limit", "4")
			rw.Header().Set("X-Rate-Limit-Remaining", fmt.Sprint(max(4-used[secretOf(r)], 0)))
			rw.Header().Set("X-Rate-Limit-Reset", fmt.Sprint(int(time.Until(window).Seconds())+1))
			if used[secretOf(r)] > 4 {
				rw.WriteHeader(http.StatusTooManyRequests)
			}
		}, poolLabelled("bad", "good", "better"), func(w rig) {
			var all sync.WaitGroup
			for i := range programs {
				all.Go(func() {
					for n := range 10 {
						if got := w.Get(fmt.Sprintf("http://site.test/users/%d%d", i+1, n)); got.Status != http.StatusOK {
							t.Errorf("%d programs, request %d of %d: %d by %s %s", programs, n, i, got.Status, got.Token, got.Body)
						}
					}
				})
			}
			all.Wait()
			w.idle("site.test")
		})
	}
}

// What is forbidden to all tokens costs at most two attempts, then one, and no token, also on a route of
// which they may see other resources.
func TestForbiddenResourcesAmongOthersCostNoToken(t *testing.T) {
	const each, runs = 20, 30
	var sent atomic.Int64
	for i := range runs {
		threads := []int{1, 4, 16}[i%3]
		run(t, func(rw http.ResponseWriter, r *http.Request) {
			elapse(time.Duration(50+rand.IntN(150)) * time.Millisecond)
			if strings.HasPrefix(r.URL.Path, "/users/403") {
				sent.Add(1)
				rw.WriteHeader(http.StatusForbidden)
			}
		}, poolLabelled("a", "b", "c"), func(w rig) {
			for n := range 6 { // all tokens are accepted once
				w.Get(fmt.Sprintf("http://site.test/users/1%d", n))
			}
			next := make(chan string, 2*each)
			for _, n := range rand.Perm(2 * each) {
				next <- fmt.Sprintf([]string{"/users/403%d", "/users/2%d"}[n%2], n)
			}
			close(next)
			var all sync.WaitGroup
			for range threads {
				all.Go(func() {
					for path := range next {
						if got := w.Get("http://site.test" + path); (got.Status == http.StatusForbidden) != strings.HasPrefix(path, "/users/403") || (got.Denied == "refused for this resource") != (got.Status == http.StatusForbidden) {
							t.Errorf("%s: %d %s", path, got.Status, got.Denied)
						}
					}
				})
			}
			all.Wait()
			if strings.Contains(w.lines(), "does not accept") {
				t.Errorf("%d threads: %s", threads, w.lines())
			}
			w.idle("site.test")
		})
	}
	if n := sent.Load(); n > runs*(each+each/2) {
		t.Errorf("%d forbidden resources were asked for %d times", runs*each, n)
	}
}

// Tokens that are all put away give their answers, as the only token of a pool does, where one of the
// answers has said why.
func TestAPoolWithoutCreditAnswersAtOnce(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(status)
			io.WriteString(rw, body)
		}
	}
	quota := answer(429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`)
	balance := answer(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`)
	invalid, unpaid := answer(401, `{}`), answer(402, `{}`)
	for name, keys := range map[string][2]func(http.ResponseWriter){
		"quota, 401": {quota, invalid}, "401, quota": {invalid, quota}, "balance, 402": {balance, unpaid}, "402, balance": {unpaid, balance}, "quota twice": {quota, quota},
	} {
		run(t, func(rw http.ResponseWriter, r *http.Request) {
			if secretOf(r) == "a-secret" {
				keys[0](rw)
				return
			}
			keys[1](rw)
		}, poolLabelled("a", "b"), func(w rig) {
			for n := range 12 {
				began := time.Now()
				if got := w.Get("http://site.test/v1/chat"); got.Status < 400 || got.Status > 429 || time.Since(began) > 10*time.Second {
					t.Errorf("%s: request %d: %d after %v", name, n, got.Status, time.Since(began))
				}
				elapse(2 * time.Minute) // so that quarantines end, too
			}
			w.idle("site.test")
		})
	}
}
