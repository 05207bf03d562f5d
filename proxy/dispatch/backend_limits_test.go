package dispatch_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

const twoBackends = unlearned + `
queue: {wait: 1h}
sites:
  - host: pool.test
    backends:
      - {url: "http://a.test", name: snscrape, limits: [{requests: 10, per: 1m}]}
      - http://b.test
    balance: round-robin
    limits: [{requests: 4, per: 1m}]
`

// requestLog is when requests came to each host.
type requestLog struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (a *requestLog) answer(_ http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil {
		a.at = map[string][]time.Time{}
	}
	a.at[r.Host] = append(a.at[r.Host], time.Now())
}

// mostWithin is the largest number of requests to a host in any interval of a length.
func (a *requestLog) mostWithin(host string, length time.Duration) int {
	most := 0
	for i, from := range a.at[host] {
		n := 0
		for _, at := range a.at[host][i:] {
			if at.Sub(from) < length {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestEachBackendIsKeptWithinLimitsOfItsOwn(t *testing.T) {
	var came requestLog
	run(t, came.answer, twoBackends, func(w rig) {
		var all sync.WaitGroup
		for range 70 { // five minutes of both
			all.Go(func() {
				if a := w.Get("http://pool.test/"); a.Status != 200 {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			})
		}
		all.Wait()
		if a, b := came.mostWithin("a.test", time.Minute), came.mostWithin("b.test", time.Minute); a != 10 || b != 4 {
			t.Errorf("at most %d and %d in a minute", a, b)
		}
		if a, b := len(came.at["a.test"]), len(came.at["b.test"]); a != 50 || b != 20 {
			t.Errorf("%d and %d in five minutes", a, b)
		}
		if took := time.Since(w.Began); took < 4*time.Minute || took > 4*time.Minute+5*time.Second {
			t.Errorf("it took %v", took)
		}
		seen := map[string]string{}
		for _, l := range w.WrittenLimits() {
			seen[l.Of] += l.Limit
		}
		if seen["snscrape"] != "10 requests per 1m" || seen["http://b.test"] != "4 requests per 1m" || len(seen) != 2 {
			t.Errorf("%v", seen)
		}
		w.idle("pool.test")
	})
}

func TestLimitsOfABackendStayWhenThoseOfTheSiteAreSet(t *testing.T) {
	var came requestLog
	run(t, came.answer, twoBackends, func(w rig) {
		set := func(limits string) {
			t.Helper()
			if err := w.SetLimits(w.T.Context(), "pool.test", []byte(limits)); err != nil {
				t.Fatal(err)
			}
		}
		set(`{"limits": [{"requests": 2, "per": "1m"}]}`)
		for range 12 {
			if a := w.Get("http://pool.test/", maxWait, "0s"); a.Status != 200 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
		if a, b := len(came.at["a.test"]), len(came.at["b.test"]); a != 10 || b != 2 {
			t.Errorf("%d and %d", a, b)
		}
		if a := w.Get("http://pool.test/", maxWait, "0s"); a.Status != 429 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		w.Reload(strings.Replace(twoBackends, "{requests: 10, per: 1m}", "{requests: 11, per: 1m}", 1))
		if a := w.Get("http://pool.test/", maxWait, "0s"); a.Status != 200 || len(came.at["a.test"]) != 11 {
			t.Errorf("after a reload: %d, %d at the first", a.Status, len(came.at["a.test"]))
		}
		if a := w.Get("http://pool.test/", maxWait, "0s"); a.Status != 429 {
			t.Errorf("after a reload: %d", a.Status)
		}
	})
}

func TestABackendIsShownByItsName(t *testing.T) {
	run(t, echoing, twoBackends, func(w rig) {
		w.Get("http://pool.test/")
		u, err := http.NewRequest("GET", "http://pool.test/", nil)
		must(t, err)
		e, err := w.Explain("GET", u.URL, "")
		must(t, err)
		if len(e.Backends) != 2 || e.Backends[0].Backend != "snscrape" || e.Backends[1].Backend != "http://b.test" {
			t.Errorf("%+v", e.Backends)
		}
		var text strings.Builder
		w.Load(twoBackends).Explain(&text, policy.Target{Scheme: "http", Host: "pool.test", Port: 80}, "", false)
		for _, want := range []string{"http://a.test (snscrape)", "at snscrape: 10 requests per 1m"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, text.String())
			}
		}
	})
}

// A limit for a path of one backend does not apply to another backend.
func TestALimitOfARouteIsThatOfItsBackend(t *testing.T) {
	var came requestLog
	run(t, came.answer, unlearned+`
sites:
  - host: pool.test
    backends:
      - {url: "http://a.test", limits: [{requests: 1, per: 1m, path: /x}]}
      - {url: "http://b.test", limits: [{requests: 3, per: 1m, path: /x}]}
      - {url: "http://c.test", limits: []}
    limits: [{concurrency: 1}]
`, func(w rig) {
		for range 60 {
			if a := w.Get("http://pool.test/x", maxWait, "0s"); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
		if a, b, c := len(came.at["a.test"]), len(came.at["b.test"]), len(came.at["c.test"]); a > 1 || b > 3 || c < 56 {
			t.Errorf("%d, %d and %d", a, b, c)
		}
	})
}
