package dispatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/status"
)

// The site announces the same amount for two routes, each of which has a limit of its own.
func TestLimitsOfDifferentRoutesHaveDifferentNamesEverywhere(t *testing.T) {
	const amount, window = 3, 600 * time.Second
	var mu sync.Mutex
	used, opened := map[string]int{}, map[string]time.Time{}
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(opened[r.URL.Path]) >= window {
			used[r.URL.Path], opened[r.URL.Path] = 0, time.Now()
		}
		used[r.URL.Path]++
		h := rw.Header()
		name := strings.Trim(r.URL.Path, "/")
		h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", name, amount, int(window.Seconds())))
		h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", name, max(amount-used[r.URL.Path], 0), int(window.Seconds()-time.Since(opened[r.URL.Path]).Seconds())))
	}, "sites: [{host: site.test}]\n", func(w rig) {
		for range 2 {
			w.Get("http://site.test/users")
			elapse(time.Second)
			w.Get("http://site.test/tweets")
			elapse(time.Second)
		}
		done := make(chan result, 8)
		for _, path := range []string{"/users", "/tweets"} {
			for range 4 {
				go func() { done <- w.Get("http://site.test" + path) }()
				synctest.Wait()
			}
		}
		elapse(10 * time.Second)
		want := map[string]bool{}
		for _, one := range w.Limits() {
			want[one.Title] = true
		}
		if len(want) != 2 {
			t.Errorf("the limits are called %v", want)
		}
		same := func(where, name string) {
			t.Helper()
			if !want[name] {
				t.Errorf("%s calls a limit %q, and there are %v", where, name, want)
			}
		}
		seen := map[string]bool{}
		for _, h := range w.Holds("site.test", 1000) {
			same("a hold", h.Limit)
			seen[h.Limit] = true
		}
		if len(seen) != 2 {
			t.Errorf("what waits waits for %v", seen)
		}
		blocked := map[string]bool{}
		for _, b := range w.Blocked() {
			if b.Limit != "retry" && !strings.HasPrefix(b.Limit, "the first request") {
				same("blocked time", b.Limit)
				blocked[b.Limit] = true
			}
		}
		if len(blocked) != 2 {
			t.Errorf("time was blocked by %v", blocked)
		}
		for _, path := range []string{"/users", "/tweets"} {
			e, err := w.Explain("GET", parseURL("http://site.test"+path), "")
			must(t, err)
			same("an explanation", e.Limit)
			if !strings.Contains(e.Limit, path[1:]) {
				t.Errorf("of %s: %q", path, e.Limit)
			}
		}
		for range 8 {
			if a := <-done; a.Status != 200 {
				t.Errorf("%d", a.Status)
			}
		}
	})
}

func TestAnIdleBucketIsNotUsedAndAnAdaptiveLimitTellsItsRate(t *testing.T) {
	run(t, echoing, `
sites:
  - host: site.test
    limits:
      - {requests: 60, per: 1m, burst: 4, as: bucket}
      - {as: adaptive, min: 1/s, max: 100/s}
      - {requests: 10, per: 1h, as: paced}
`, func(w rig) {
		w.Get("http://site.test/")
		elapse(time.Hour)
		written := map[string]status.Limit{}
		for _, one := range w.WrittenLimits() {
			written[one.Limit] = one
		}
		if b := written["60 requests per 1m (bucket)"]; b.Amount != 60 || b.Most != 4 || b.Left != 4 {
			t.Errorf("the bucket: %+v", b)
		}
		if p := written["10 requests per 1h (paced)"]; p.Most != p.Left {
			t.Errorf("what is paced: %+v", p)
		}
		if a := written["adaptive between 1/s and 100/s"]; a.Rate != 10 {
			t.Errorf("the adaptive limit: %+v in %v", a, written)
		}
		e, err := w.Explain("GET", parseURL("http://site.test/"), "")
		must(t, err)
		if len(e.Limits) != 3 || e.Limits[1].Rate != 10 || e.Limits[0].Rate != 0 {
			t.Errorf("the explanation: %+v", e.Limits)
		}
	})
}

// The site announces one limit for all of its routes, and says how long its window is.
func TestTheOnlyLimitOfASiteIsNamedAfterItsAmountEverywhere(t *testing.T) {
	const amount, window = 5, 60 * time.Second
	var mu sync.Mutex
	used := 0
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		used++
		h := rw.Header()
		into := time.Duration(time.Now().UnixNano()) % window
		h.Set("X-RateLimit-Limit", fmt.Sprint(amount))
		h.Set("X-RateLimit-Remaining", fmt.Sprint(max(amount-used, 0)))
		h.Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(window-into).Unix()))
	}, "sites: [{host: site.test}]\n", func(w rig) {
		elapse(time.Second)
		done := make(chan result, 9)
		for i := range 9 {
			go func() { done <- w.Get(fmt.Sprintf("http://site.test/%d", i)) }()
			synctest.Wait()
			elapse(100 * time.Millisecond)
		}
		names := map[string]string{} // :: name → where it was seen first
		for _, one := range w.Limits() {
			names[one.Title] = "the table of limits"
		}
		for _, h := range w.Holds("site.test", 1000) {
			names[h.Limit] = "what waits"
		}
		e, err := w.Explain("GET", parseURL("http://site.test/77"), "")
		must(t, err)
		names[e.Limit] = "the explanation"
		if len(names) != 1 || names["5 requests"] == "" {
			t.Errorf("the only limit of the site is called %v", names)
		}
		for range 9 {
			<-done
		}
	})
}

// The site does not say how long its windows are; an answer 429 of abide says what was measured.
func TestARefusalSaysTheWindowThatWasMeasured(t *testing.T) {
	const amount, window = 5, 10 * time.Second
	used, ends := 0, time.Time{}
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		if !time.Now().Before(ends) {
			used, ends = 0, time.Now().Truncate(window).Add(window)
		}
		used++
		h := rw.Header()
		h.Set("X-RateLimit-Limit", fmt.Sprint(amount))
		h.Set("X-RateLimit-Remaining", fmt.Sprint(max(amount-used, 0)))
		h.Set("X-RateLimit-Reset", fmt.Sprint(int(time.Until(ends).Seconds())+1))
		if used > amount {
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	}, "sites: [{host: site.test}]\n", func(w rig) {
		for range 31 {
			w.Get("http://site.test/")
		}
		refused := result{}
		for range 9 {
			refused = w.Get("http://site.test/", "Abide-Max-Wait", "10ms")
		}
		if refused.Status != 429 || !strings.Contains(refused.Body, `"limit":"5 requests per about 10s (measured)"`) {
			t.Errorf("%d %s", refused.Status, refused.Body)
		}
	})
}

// TestALimitThatWasReplacedIsNotShown, although its meter is remembered for a while.
func TestALimitThatWasReplacedIsNotShown(t *testing.T) {
	const yaml = unlearned + "sites:\n  - {host: [site.test, other.test], limits: [{requests: 60, per: 1m}, {concurrency: 8, by: client}]}\n"
	run(t, echoing, yaml, func(w rig) {
		w.Get("http://site.test/")
		w.Get("http://other.test/")
		must(t, w.SetLimits(w.T.Context(), "site.test", []byte(`{"limits": [{"requests": 5, "per": "1m"}]}`)))
		w.Get("http://site.test/")
		var shown []string
		for _, one := range w.WrittenLimits() {
			shown = append(shown, one.Site+" "+one.Limit)
		}
		if want := []string{"other.test 60 requests per 1m", "other.test 8 in flight by client", "site.test 5 requests per 1m"}; !slices.Equal(shown, want) {
			t.Errorf("%q, want %q", shown, want)
		}
	})
}
