//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What several processes ask for together.
const (
	severalAmount = 20
	severalWindow = 2 * time.Second
	// severalDelay is how much later than another one a request may arrive that was
	// sent at the same time, on a machine that is busy. By as much less an origin
	// measures.
	severalDelay = time.Second
)

// severalConfig has a site for each kind of limit, with the same amount.
func severalConfig(c *counting) string {
	resolve, sites := "", ""
	for _, as := range []string{"fixed", "rolling", "first-use", "bucket"} {
		resolve += fmt.Sprintf("%q: %q, ", as+".test:80", c.address)
		sites += fmt.Sprintf("\n  - {host: %s.test, learn: false, limits: [{requests: %d, per: %v, as: %s}]}", as, severalAmount, severalWindow, as)
	}
	return fmt.Sprintf(`
data: data
egress: {resolve: {%s"paced.test:80": %q, "day.test:80": %q}}
sites:%s
  - {host: paced.test, learn: false, limits: [{requests: 10, per: 2s, as: paced}]}
  - {host: day.test, learn: false, limits: [{requests: 30, per: day, timezone: %s}]}
`, resolve, c.address, c.address, sites, midday())
}

// keepsTrying does something again and again until it is so.
func keepsTrying(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	over := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("%s: it does not come to that", what)
		}
	}
}

// runOf is an "abide run" of curl that asks n times for a site.
func runOf(t *testing.T, dir, host string, n int) *daemon {
	t.Helper()
	list := fmt.Sprintf("http://%s/[1-%d]", host, n)
	return launch(t, dir, nil, "run", "--", "curl", "-s", "-S", "-o", "/dev/null", "--max-time", "120", "-w", "%{http_code}\n", list)
}

// statuses are the statuses that the curl of a crawl was given.
func statuses(t *testing.T, d *daemon) []string {
	t.Helper()
	if status := d.status(); status != 0 {
		t.Errorf("it ended with %d: %s", status, d.log)
	}
	return strings.Fields(d.out.String())
}

// allWell fails the test unless all answers of a crawl are 200.
func allWell(t *testing.T, d *daemon, n int) {
	t.Helper()
	list := statuses(t, d)
	if len(list) != n || slices.ContainsFunc(list, func(s string) bool { return s != "200" }) {
		t.Errorf("the answers are %v", list)
	}
}

// TestTwoRunsAtOnceKeepOneBudget: whatever the kind of the limit, an origin never sees
// more than it from both, and both are done.
func TestTwoRunsAtOnceKeepOneBudget(t *testing.T) {
	for host, window := range map[string]time.Duration{
		"fixed.test": severalWindow, "rolling.test": severalWindow, "first-use.test": severalWindow, "bucket.test": severalWindow,
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			dir, origin := t.TempDir(), newCounting(t)
			write(t, filepath.Join(dir, "abide.yaml"), severalConfig(origin))
			const each = 45
			began := time.Now()
			first := runOf(t, dir, host, each)
			keepsTrying(t, "the first is at work", func() bool { return origin.count(host) > 0 })
			second := runOf(t, dir, host, each)
			allWell(t, first, each)
			allWell(t, second, each)
			took := time.Since(began)
			most, allowed := origin.most(host, window-severalDelay), severalAmount
			switch host {
			case "fixed.test": // half of two windows
				allowed *= 2
			case "bucket.test":
				allowed += severalAmount / 2
			}
			t.Logf("%d in %v, at most %d in %v", origin.count(host), took, most, window-severalDelay)
			if most > allowed {
				t.Errorf("%d arrived in %v", most, window-severalDelay)
			}
			if n := origin.count(host); n != 2*each {
				t.Errorf("%d arrived", n)
			}
			// 90 requests need four windows after the first 20, or the rate for as long.
			if least := severalWindow * (2*each - 2*severalAmount) / severalAmount; took < least {
				t.Errorf("it took %v, and the limit needs %v", took, least)
			}
		})
	}
}

// TestARunBesideServeSpendsTheSameQuota: of what a day allows each gets what the other
// has left, whoever is killed.
func TestARunBesideServeSpendsTheSameQuota(t *testing.T) {
	t.Parallel()
	dir, origin := t.TempDir(), newCounting(t)
	write(t, filepath.Join(dir, "abide.yaml"), severalConfig(origin))
	d := serveIn(t, dir, nil)
	for range 5 {
		if status, text := d.get("http://day.test/"); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	allWell(t, runOf(t, dir, "day.test", 5), 5)
	d.signal(syscall.SIGKILL)
	d.status()
	allWell(t, runOf(t, dir, "day.test", 5), 5)

	// Two at once, of which one is killed while both work.
	first := serveIn(t, dir, []string{"ABIDE_QUEUE_WAIT=1s"})
	second := serveIn(t, dir, []string{"ABIDE_QUEUE_WAIT=1s"})
	for _, d := range []*daemon{first, second} {
		keepsTrying(t, "they know of each other", func() bool {
			_, text := d.ask("/api/v1/status")
			return strings.Contains(text, `"member_count":2`)
		})
	}
	for range 3 {
		for _, d := range []*daemon{first, second} {
			if status, text := d.get("http://day.test/"); status != 200 {
				t.Fatalf("%d %s", status, text)
			}
		}
	}
	first.signal(syscall.SIGKILL)
	first.status()
	went := 0
	for range 20 {
		if status, _ := second.get("http://day.test/"); status == 200 {
			went++
		}
	}
	// 21 have gone; of the 9 that are left the dead one may have had a few.
	if went > 9 || went < 6 {
		t.Errorf("%d went of the 9 that were left", went)
	}
	if n := origin.count("day.test"); n > 30 {
		t.Errorf("%d arrived of 30", n)
	}
	keepsTrying(t, "it is alone", func() bool {
		_, text := second.ask("/api/v1/status")
		return strings.Contains(text, `"member_count":1`)
	})
}

// TestWhoEndsFirstLeavesTheOtherItsProxy: the first one makes everything, and the second
// goes on without it, and so does a third one after the second was killed.
func TestWhoEndsFirstLeavesTheOtherItsProxy(t *testing.T) {
	t.Parallel()
	dir, origin := t.TempDir(), newCounting(t)
	write(t, filepath.Join(dir, "abide.yaml"), severalConfig(origin))
	first, second := serveIn(t, dir, nil), serveIn(t, dir, nil)
	for _, d := range []*daemon{first, second} {
		if status, text := d.get("http://paced.test/"); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	first.signal(syscall.SIGTERM)
	if status := first.status(); status != 0 {
		t.Errorf("the first ended with %d", status)
	}
	for range 3 {
		if status, text := second.get("http://paced.test/"); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	third := serveIn(t, dir, nil)
	if status, text := third.get("http://paced.test/"); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	second.signal(syscall.SIGKILL)
	second.status()
	for range 3 {
		if status, text := third.get("http://paced.test/"); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	if _, text := third.ask("/readyz"); !strings.Contains(text, "state: ok") {
		t.Error(text)
	}
	third.signal(syscall.SIGTERM)
	if status := third.status(); status != 0 {
		t.Errorf("the third ended with %d", status)
	}
	left, err := filepath.Glob(filepath.Join(dir, "data", stateFile+".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

// announcing is an API that allows 5 requests per 5 seconds to an address, counted from
// the first one, and says so.
func announcing(t *testing.T) (address string, refused, served *atomic.Int64) {
	const amount, window = 5, 5 * time.Second
	refused, served = &atomic.Int64{}, &atomic.Int64{}
	var mu sync.Mutex
	var ends time.Time
	used := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if !now.Before(ends) {
			ends, used = now.Add(window), 0
		}
		used++
		header := w.Header()
		header.Set("X-RateLimit-Limit", strconv.Itoa(amount))
		header.Set("X-RateLimit-Remaining", strconv.Itoa(max(amount-used, 0)))
		header.Set("X-RateLimit-Reset", strconv.FormatInt(int64(ends.Sub(now).Seconds())+1, 10))
		if used > amount {
			refused.Add(1)
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		served.Add(1)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), refused, served
}

// TestTwoRunsWithoutAConfigurationShareWhatAnAPIAnnounces: neither command sees a 429,
// and the API has to refuse little.
func TestTwoRunsWithoutAConfigurationShareWhatAnAPIAnnounces(t *testing.T) {
	t.Parallel()
	address, refused, served := announcing(t)
	dir := t.TempDir()
	const each = 12
	list := fmt.Sprintf("http://%s/[1-%d]", address, each)
	start := func() *daemon {
		return launch(t, dir, nil, "run", "--data", "data", "--", "env", "NO_PROXY=", "no_proxy=", "curl", "-s", "-S", "-o", "/dev/null", "-w", "%{http_code}\n", list)
	}
	first, second := start(), start()
	allWell(t, first, each)
	allWell(t, second, each)
	t.Logf("%d served, %d refused", served.Load(), refused.Load())
	if refused.Load() > 6 {
		t.Errorf("%d were refused", refused.Load())
	}
}
