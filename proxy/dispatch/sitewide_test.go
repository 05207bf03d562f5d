package dispatch_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// TestALimitOfTheWholeSiteIsNoTokens: Binance counts weight by address, whatever the key.
// Keys whose counts fall together because of that are not of one account.
func TestALimitOfTheWholeSiteIsNoTokens(t *testing.T) {
	var used atomic.Int64
	var refused atomic.Int64
	var minute atomic.Int64
	sites := func(rw http.ResponseWriter, r *http.Request) {
		elapse(10 * time.Millisecond)
		if now := time.Now().Unix() / 60; minute.Swap(now) != now {
			used.Store(0)
		}
		n := used.Add(1)
		rw.Header().Set("X-Mbx-Used-Weight-1m", strconv.FormatInt(n, 10))
		rw.Header().Set("X-Ratelimit-Limit", "60")
		rw.Header().Set("X-Ratelimit-Remaining", strconv.FormatInt(max(60-n, 0), 10))
		rw.Header().Set("X-Ratelimit-Reset", strconv.FormatInt(60-time.Now().Unix()%60, 10))
		rw.Header().Set("X-Ratelimit-Scope", "ip")
		if n > 60 {
			refused.Add(1)
			rw.WriteHeader(429)
		}
		elapse(10 * time.Millisecond)
	}
	const yaml = `
pools:
  p: {tokens: [{label: ann, secret: ann-secret}, {label: bob, secret: bob-secret}]}
sites:
  - host: site.test
    pool: p
    insecure: true
    dialect: {headers: [{name: x-ratelimit-limit, is: limit, of: ip, scope: site}, {name: x-ratelimit-remaining, is: remaining, of: ip, scope: site}, {name: x-ratelimit-reset, is: reset, of: ip, scope: site}]}
`
	run(t, sites, yaml, func(w rig) {
		s := &accounts{}
		s.crawl(w, 4, 10*time.Minute)
		for _, one := range w.Pools()[0].Tokens {
			if len(one.Twins) > 0 {
				t.Errorf("%s is taken for a twin of %v", one.Label, one.Twins)
			}
		}
		for _, l := range w.Limits() {
			if l.Route == "" || l.Limit == 60 && l.Token != "" {
				t.Errorf("%+v", l)
			}
		}
		if n := refused.Load(); n > 2 {
			t.Errorf("%d refused", n)
		}
	})
}
