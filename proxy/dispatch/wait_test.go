package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsBeyondALimitWaitForItsWindow(t *testing.T) {
	run(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 10, per: 15m}]
`, func(w rig) {
		for i := range 25 {
			a := w.Get(fmt.Sprintf("http://site.test/%d", i))
			if a.Status != 200 {
				t.Fatalf("request %d: %d %s", i, a.Status, a.Body)
			}
			if want := time.Duration(i/10) * 15 * time.Minute; a.At < want || a.At > want+time.Second {
				t.Errorf("request %d was answered after %v, not %v", i, a.At, want)
			}
			if i == 10 && a.Waited.Truncate(time.Second) != 900*time.Second && a.Waited.Truncate(time.Second) != 899*time.Second {
				t.Errorf("it has waited %v", a.Waited)
			}
		}
		if a := w.Get("http://other.test/"); a.Waited != 0 || a.Site != "other.test" || a.Attempts != 1 {
			t.Errorf("%v", a.Header)
		}
	})
}

func TestAReloadPlansWhatWaitsAnew(t *testing.T) {
	const yaml = `
queue: {wait: 2h}
sites:
  - host: site.test
    limits: [{requests: %d, per: 1m}]
`
	run(t, echoing, fmt.Sprintf(yaml, 1), func(w rig) {
		var all sync.WaitGroup
		var ok atomic.Int64
		for range 50 {
			all.Go(func() {
				if a := w.Get("http://site.test/"); a.Status == 200 {
					ok.Add(1)
				}
			})
		}
		synctest.Wait()
		if ok.Load() != 1 || len(w.Holds("", 1000)) != 49 {
			t.Fatalf("%d went, %d wait", ok.Load(), len(w.Holds("", 1000)))
		}
		w.Reload(fmt.Sprintf(yaml, 50))
		all.Wait()
		if ok.Load() != 50 || w.Asked.Load() != 50 || time.Since(w.Began) > time.Minute {
			t.Errorf("%d of 50 went, the site was asked %d times, after %v", ok.Load(), w.Asked.Load(), time.Since(w.Began))
		}
	})
}

func TestALoweredLimitKeepsWhatWasSpent(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, limits: [{requests: %d, per: 10m}]}\n"
	run(t, echoing, fmt.Sprintf(yaml, 5), func(w rig) {
		for range 5 {
			w.Get("http://site.test/")
		}
		w.Reload(fmt.Sprintf(yaml, 3))
		if a := w.Get("http://site.test/"); a.Status != 200 || a.At < 10*time.Minute || a.At > 11*time.Minute {
			t.Errorf("%d after %v", a.Status, a.At)
		}
	})
}

// A changed limit is shown as it is from the reload on, whether requests come or not.
func TestAChangedLimitIsShownAtOnce(t *testing.T) {
	const yaml = `
access: {clients: [{name: news, secret: x, limits: [{requests: %[1]d, per: 3h}]}]}
sites:
  - host: site.test
    limits: [{requests: %[1]d, per: 1h}, {requests: %[1]d, per: 2h, by: client}, {bytes: %[1]dMB, per: 1h}]
`
	run(t, echoing, fmt.Sprintf(yaml, 10), func(w rig) {
		for range 3 {
			w.Get("http://site.test/", "Abide-Client", "news")
		}
		for _, amount := range []int64{20, 5} {
			w.Reload(fmt.Sprintf(yaml, amount))
			shown := w.WrittenLimits()
			for _, l := range shown {
				if l.Unit == "bytes" {
					l.Amount, l.Left = l.Amount/1e6, (l.Left+1e6-1)/1e6-3
				}
				if l.Amount != amount || l.Left != amount-3 || !strings.HasPrefix(l.Limit, fmt.Sprint(amount)) {
					t.Errorf("after a reload to %d: %+v", amount, l)
				}
			}
			for _, f := range w.Forecast("", 0) {
				if f.Unit != "bytes" && (f.Amount != amount || f.Used != 3) {
					t.Errorf("after a reload to %d: %+v", amount, f)
				}
			}
			if len(shown) != 4 {
				t.Errorf("%d limits are shown", len(shown))
			}
		}
	})
}

// TestALimitThatIsChangedAndChangedBackKeepsWhatWasSpentMeanwhile: what went under another limit in between counts, too.
func TestALimitThatIsChangedAndChangedBackKeepsWhatWasSpentMeanwhile(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, limits: [{requests: 10, per: %s}]}\n"
	run(t, echoing, fmt.Sprintf(yaml, "1h"), func(w rig) {
		for _, per := range []string{"2h", "1h"} {
			for range 3 {
				w.Get("http://site.test/")
			}
			w.Reload(fmt.Sprintf(yaml, per))
		}
		for range 4 {
			if a := w.Get("http://site.test/"); a.Status != 200 || a.At > time.Minute {
				t.Errorf("%d after %v", a.Status, a.At)
			}
		}
		if a := w.Get("http://site.test/"); a.Status == 200 && a.At < 50*time.Minute {
			t.Errorf("an eleventh request went after %v", a.At)
		}
	})
}

func TestObserveHoldsNothingAndTellsWhatItWouldHaveHeld(t *testing.T) {
	refuse := false
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if refuse {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
		}
	}
	run(t, sites, "mode: observe\nsites:\n  - {host: site.test, limits: [{requests: 2, per: 10m}]}\n", func(w rig) {
		for i := range 4 {
			a := w.Get("http://site.test/")
			if a.Status != 200 || a.At > time.Second {
				t.Errorf("request %d: %d after %v", i, a.Status, a.At)
			}
			wait, held := wouldWait(a)
			held = held && a.Would.Limit == "2 requests per 10m" && int(wait) == 600
			if held != (i >= 2) {
				t.Errorf("request %d: %v", i, a.Header)
			}
		}
		refuse = true
		if a := w.Get("http://other.test/"); a.Status != 429 || a.Attempts != 1 {
			t.Errorf("a refusal: %d %v", a.Status, a.Header)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	run(t, echoing, `
queue: {max: 8, per_site: 5, wait: 1h}
sites:
  - host: "*.test"
    limits: [{requests: 1, per: 10m}]
`, func(w rig) {
		var all sync.WaitGroup
		hold := func(host string) {
			all.Go(func() { w.Get("http://" + host + "/") })
			synctest.Wait()
		}
		for range 6 { // one request is sent, five wait
			hold("a.test")
		}
		began := time.Now()
		a := w.Get("http://a.test/")
		if a.Status != 503 || a.Header.Get("Retry-After") == "" || time.Since(began) > time.Second {
			t.Errorf("beyond queue.per_site: %d %v", a.Status, a.Header)
		}
		for range 4 { // one request is sent, three wait
			hold("b.test")
		}
		if a := w.Get("http://b.test/"); a.Status != 503 {
			t.Errorf("beyond queue.max: %d", a.Status)
		}
		if a := w.Get("http://c.test/"); a.Status != 200 {
			t.Errorf("a site that is free: %d", a.Status)
		}
		all.Wait()
	})
}

func TestAWaitThatWouldBeTooLongIsRefusedAtOnce(t *testing.T) {
	run(t, echoing, `
queue: {wait: 5m}
sites:
  - host: site.test
    limits: [{requests: 1, per: 10m}]
`, func(w rig) {
		w.Get("http://site.test/")
		for _, options := range [][]string{nil, {"Abide-Max-Wait", "30s"}} {
			a := w.Get("http://site.test/", options...)
			if a.Status != 429 || a.Header.Get("Retry-After") != "600" || a.At > time.Second {
				t.Errorf("%d after %v: %v", a.Status, a.At, a.Header)
			}
			for _, want := range []string{`"urn:abide:wait"`, `"site":"site.test"`, `per 10m`, `"retry_at":"`} {
				if !strings.Contains(a.Body, want) {
					t.Errorf("the problem lacks %s: %s", want, a.Body)
				}
			}
		}
		if a := w.Get("http://site.test/", "Abide-Max-Wait", "soon"); a.Status != 400 {
			t.Errorf("an option that makes no sense: %d", a.Status)
		}
	})
}

func TestTheMoreUrgentGoFirst(t *testing.T) {
	var order []string
	var mu sync.Mutex
	sites := func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		order = append(order, r.URL.Path)
		mu.Unlock()
		for name := range r.Header {
			if strings.HasPrefix(name, "Abide-") {
				t.Errorf("the site was told %s", name)
			}
		}
	}
	run(t, sites, `
sites:
  - host: site.test
    limits: [{requests: 1, per: 1s, as: paced}]
`, func(w rig) {
		w.Get("http://site.test/first")
		var all sync.WaitGroup
		for _, p := range []string{"7", "3", "0"} {
			all.Go(func() { w.Get("http://site.test/"+p, "Abide-Priority", p) })
			synctest.Wait()
		}
		all.Wait()
		if got := strings.Join(order, ""); got != "/first/0/3/7" {
			t.Errorf("%s", got)
		}
	})
}
