package dispatch_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestEachTokenHasTheWholeLimitForItself(t *testing.T) {
	var mu sync.Mutex
	flying, most, sent := map[string]int{}, map[string]int{}, map[string]int{}
	sites := func(_ http.ResponseWriter, r *http.Request) {
		who := r.Header.Get("Authorization")
		mu.Lock()
		flying[who]++
		most[who] = max(most[who], flying[who])
		sent[who]++
		mu.Unlock()
		elapse(time.Second)
		mu.Lock()
		flying[who]--
		mu.Unlock()
	}
	const yaml = `
pools:
  p:
    tokens: [{label: ann, secret: ann-secret}, {label: bob, secret: bob-secret}, {label: eve, secret: eve-secret}]
    limits: [{concurrency: 2, by: token}]
sites:
  - host: site.test
    pool: p
    insecure: true
    learn: false
    limits: [{requests: 5, per: 10m, by: token}]
`
	run(t, sites, yaml, func(w rig) {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if a := w.Get("http://site.test/"); a.Status != 200 || a.Token == "" {
					t.Errorf("%d %v", a.Status, a.Header)
				}
			})
		}
		time.AfterFunc(9*time.Minute, func() {
			mu.Lock()
			defer mu.Unlock()
			for who, n := range sent {
				if n != 5 || most[who] != 2 {
					t.Errorf("%d requests with one token in a window, %d at once", n, most[who])
				}
			}
			if len(sent) != 3 {
				t.Errorf("%d tokens", len(sent))
			}
		})
		all.Wait()
		if took := time.Since(w.Began); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("the sixteenth came after %v", took)
		}
	})
}

func TestWhatWaitsForTheTokensOfAPoolSaysSo(t *testing.T) {
	run(t, echoing, `
pools:
  p: {tokens: [{label: ann, secret: ann-secret}, {label: bob, secret: bob-secret}, {label: eve, secret: eve-secret}]}
sites:
  - {host: site.test, pool: p, insecure: true, learn: false, limits: [{requests: 1, per: 1m, by: token}]}
`, func(w rig) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { w.Get("http://site.test/") })
		}
		synctest.Wait()
		holds := w.Holds("", 10)
		for _, h := range holds {
			if want := "1 request per 1m by token of any of 3 tokens of p"; h.Limit != want {
				t.Errorf("it waits for %q, want %q", h.Limit, want)
			}
		}
		if len(holds) != 5 {
			t.Errorf("%d wait", len(holds))
		}
		pool := w.Tokens().Normalize().Pools[0]
		if got := pool.Can(time.Now()); pool.Ready != 0 || got != "0 of 3 tokens can go now, the next in 1 min 00 s" {
			t.Errorf("%d are ready: %s", pool.Ready, got)
		}
		for _, one := range pool.Tokens {
			if one.State != "spent" || time.Until(one.Until) != time.Minute || len(one.Limits) > 0 {
				t.Errorf("%s is %s until %v, with %v", one.Label, one.State, one.Until, one.Limits)
			}
		}
		e, err := w.Explain("GET", parseURL("http://site.test/"), "")
		must(t, err)
		if e.Limit != holds[0].Limit {
			t.Errorf("it is explained by %q", e.Limit)
		}
		all.Wait()
	})
}

// TestWhatWaitsForTokensOfDifferentPlansNamesNoSingleOne: one token of three has a limit of its own.
func TestWhatWaitsForTokensOfDifferentPlansNamesNoSingleOne(t *testing.T) {
	left := map[string]int{"ann": 4, "bob": 4, "eve": 2}
	var mu sync.Mutex
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		who := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer secret-of-")
		left[who]--
		rw.Header().Set("X-RateLimit-Limit", map[string]string{"ann": "4", "bob": "4", "eve": "2"}[who])
		rw.Header().Set("X-RateLimit-Remaining", strconv.Itoa(left[who]))
		rw.Header().Set("X-RateLimit-Reset", map[string]string{"ann": "600", "bob": "601", "eve": "900"}[who])
	}, `
pools:
  p: {tokens: [{label: ann, secret: secret-of-ann}, {label: bob, secret: secret-of-bob}, {label: eve, secret: secret-of-eve}]}
sites:
  - {host: site.test, pool: p, insecure: true}
`, func(w rig) {
		for range 10 {
			w.Get("http://site.test/a")
		}
		ctx, cancel := context.WithCancel(context.Background())
		var waits sync.WaitGroup
		waits.Go(func() { w.Do(ctx, "GET", "http://site.test/a", "") })
		synctest.Wait()
		if holds := w.Holds("", 10); len(holds) != 1 || !strings.HasSuffix(holds[0].Limit, " of any of 2 tokens of p") {
			t.Errorf("%+v", holds)
		}
		cancel()
		waits.Wait()
	})
}
