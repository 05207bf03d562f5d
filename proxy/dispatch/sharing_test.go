package dispatch_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// announcer is a site that counts requests by token. Its windows begin by the clock, or with
// the first request after the last window.
type announcer struct {
	amount   int
	window   time.Duration
	windows  int
	first    bool          // windows begin with a request
	relative bool          // resets are announced as seconds from now
	silent   bool          // nothing is announced; requests are only refused
	think    time.Duration // average pause of a crawler after each request
	file     string        // the crawlers are processes of one machine with this state file; "": they are a fleet

	mu      sync.Mutex
	counts  map[string]int       // :: secret → of the present window
	ends    map[string]time.Time // :: secret → when that ends
	total   map[string]map[time.Time]int
	refused []time.Time
}

func newAnnouncer(a *announcer) *announcer {
	a.amount, a.window, a.windows = 60, cmp.Or(a.window, 20*time.Second), max(a.windows, 8)
	a.counts, a.ends, a.total = map[string]int{}, map[string]time.Time{}, map[string]map[time.Time]int{}
	return a
}

// use counts a request of a token, if the request fits into the token's window.
func (a *announcer) use(secret string) (now, end time.Time, left int, fits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now = time.Now()
	if !now.Before(a.ends[secret]) {
		a.counts[secret], a.ends[secret] = 0, now.Truncate(a.window).Add(a.window)
		if a.first {
			a.ends[secret] = now.Add(a.window)
		}
	}
	end = a.ends[secret]
	if fits = a.counts[secret] < a.amount; fits {
		a.counts[secret]++
		if a.total[secret] == nil {
			a.total[secret] = map[time.Time]int{}
		}
		a.total[secret][end]++
	}
	return now, end, a.amount - a.counts[secret], fits
}

// refusals is the number of requests that were refused.
func (a *announcer) refusals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.refused)
}

func (a *announcer) serve(rw http.ResponseWriter, r *http.Request) {
	elapse(20 * time.Millisecond)
	now, end, left, fits := a.use(secretOf(r))
	if !fits {
		a.mu.Lock()
		a.refused = append(a.refused, now)
		a.mu.Unlock()
	}
	if a.silent {
		if !fits {
			rw.WriteHeader(429)
		}
		elapse(20 * time.Millisecond)
		return
	}
	h := rw.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(a.amount))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	if a.relative {
		h.Set("X-RateLimit-Reset", strconv.Itoa(int((end.Sub(now)+time.Second-1)/time.Second)))
	} else {
		h.Set("X-RateLimit-Reset", strconv.FormatInt(end.Add(time.Second-1).Unix(), 10))
	}
	if !fits {
		h.Set("Retry-After", strconv.Itoa(int((end.Sub(now)+time.Second-1)/time.Second)))
		rw.WriteHeader(429)
	}
	elapse(20 * time.Millisecond)
}

// runFleet runs n dispatchers that share a store, in a bubble.
func runFleet(t *testing.T, n int, shared store.Store, sites http.HandlerFunc, yaml string, test func(all []rig)) {
	t.Helper()
	runTogether(t, n, func(id string) dispatch.Keeping {
		return dispatch.Keeping{Store: shared, Shared: true, Instance: id, Name: id}
	}, sites, yaml, test)
}

// runTogether runs n dispatchers that keep together what keeping returns, in a bubble.
func runTogether(t *testing.T, n int, keeping func(id string) dispatch.Keeping, sites http.HandlerFunc, yaml string, test func(all []rig)) {
	t.Helper()
	var all []rig
	for i := range n {
		all = append(all, rig{dispatchtest.Start(t, sites, yaml, keeping(fmt.Sprint("instance ", i)))})
	}
	synctest.Wait()
	elapse(store.RecoveryTime + time.Second)
	test(all)
	var ending sync.WaitGroup
	for _, w := range all {
		ending.Go(w.Close)
	}
	ending.Wait()
}

const tokensOfThree = "pools: {p: {tokens: [{label: a, secret: a-secret}, {label: b, secret: b-secret}, {label: c, secret: c-secret}]}}\n" +
	"sites:\n  - {host: site.test, insecure: true, pool: p}\n"

// crawl runs 48 clients over n proxies for eight windows. Another user takes foreign
// requests of token a in each window. It returns how many requests were refused after the
// first window, and which part of the later windows was used.
func (a *announcer) crawl(t *testing.T, n, foreign int, yaml string) (late int, used float64) {
	elapse(time.Until(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)))
	shared := &reference.Unreliable{Store: reference.New(nil)}
	shared.Delay.Store(int64(2 * time.Millisecond))
	keeping := func(id string) dispatch.Keeping {
		if a.file == "" {
			return dispatch.Keeping{Store: shared, Shared: true, Instance: id, Name: id}
		}
		id = strings.ReplaceAll(id, " ", "")
		file, err := store.OpenFile(t.Context(), a.file, store.FileOptions{Instance: id, Name: id})
		must(t, err)
		t.Cleanup(func() { must(t, file.Close()) })
		return dispatch.Keeping{Store: file, Documents: file, Memory: file, Instance: id, Name: id}
	}
	runTogether(t, n, keeping, a.serve, yaml, func(all []rig) {
		startOfWindow(a.window)
		begin, ctx := time.Now(), t.Context()
		end := begin.Add(time.Duration(a.windows) * a.window)
		var crawlers sync.WaitGroup
		for i, w := range all {
			for k := range 48 / n {
				crawlers.Go(func() {
					rnd := rand.New(rand.NewSource(int64(100*i + k)))
					for time.Now().Before(end.Add(-time.Second)) {
						within, cancel := context.WithDeadline(ctx, end)
						w.Do(within, "GET", "http://site.test/x", "")
						cancel()
						elapse(time.Duration(rnd.Int63n(int64(2*a.think) + 1)))
					}
				})
			}
		}
		if foreign > 0 {
			crawlers.Go(func() {
				for time.Now().Before(end) {
					a.use("a-secret")
					elapse(a.window / time.Duration(foreign))
				}
			})
		}
		crawlers.Wait()
		a.mu.Lock() // a request of a client that has left may still be in flight
		defer a.mu.Unlock()
		for _, at := range a.refused {
			if at.Sub(begin) > a.window+a.window/10 {
				late++
			}
		}
		served, windows := 0, 0
		for _, counts := range a.total {
			for ends, n := range counts {
				if from := ends.Add(-a.window); from.Sub(begin) >= 2*a.window-time.Second && !ends.After(end) {
					served, windows = served+n, windows+1
				}
			}
		}
		used = float64(served) / float64(windows*a.amount)
		t.Logf("%d refused, %d of them after the first window; %.1f %% of %d windows used", len(a.refused), late, 100*used, windows)
	})
	return late, used
}

// A fleet divides what a site announces for each token as one process would: nothing is
// refused after the first window, and everything is used.
func TestAFleetDividesWhatASiteAnnounces(t *testing.T) {
	for kind := range 4 {
		first, relative := kind >= 2, kind%2 == 1
		for _, n := range []int{1, 4, 12} {
			t.Run(fmt.Sprintf("%d instances, first %v, relative %v", n, first, relative), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					late, used := newAnnouncer(&announcer{first: first, relative: relative}).crawl(t, n, 0, tokensOfThree)
					bound := 0
					if n > 1 && (first || relative) {
						bound = 5 // instances differ by up to a second about the end of a window
					}
					if late > bound || used < 0.9 {
						t.Errorf("%d are refused after the first window, %.1f %% are used", late, 100*used)
					}
				})
			})
		}
	}
}

// Processes of one machine divide what a site announces to its address, too.
func TestProcessesDivideWhatASiteAnnounces(t *testing.T) {
	for kind := range 4 {
		first, relative := kind >= 2, kind%2 == 1
		t.Run(fmt.Sprintf("first %v, relative %v", first, relative), func(t *testing.T) {
			path := newStatePath(t)
			synctest.Test(t, func(t *testing.T) {
				late, used := newAnnouncer(&announcer{file: path, first: first, relative: relative}).crawl(t, 3, 0, "")
				if late > 5 || used < 0.9 {
					t.Errorf("%d are refused after the first window, %.1f %% are used", late, 100*used)
				}
			})
		})
	}
}

// Whatever the length of its windows, no window of a site stays empty while processes have requests for it. The store
// counts a window for up to eight times its length.
func TestProcessesUseEachWindowThatASiteAnnounces(t *testing.T) {
	for _, length := range []time.Duration{10 * time.Second, 30 * time.Second} {
		t.Run(length.String(), func(t *testing.T) {
			path := newStatePath(t)
			synctest.Test(t, func(t *testing.T) {
				if _, used := newAnnouncer(&announcer{file: path, window: length, windows: 12}).crawl(t, 3, 0, ""); used < 0.9 {
					t.Errorf("%.1f %% are used", 100*used)
				}
			})
		})
	}
}

// A fleet with one address divides what a site announces without a token.
func TestAFleetWithOneAddressDividesWhatASiteAnnounces(t *testing.T) {
	for _, n := range []int{1, 4, 12} {
		t.Run(fmt.Sprintf("%d instances", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				yaml := "egress: {shared: true}\nsites:\n  - {host: site.test, limits: [{concurrency: 100}]}\n"
				late, used := newAnnouncer(&announcer{}).crawl(t, n, 0, yaml)
				if late > 0 || used < 0.8 {
					t.Errorf("%d are refused after the first window, %.1f %% are used", late, 100*used)
				}
			})
		})
	}
}

// A fleet does not use what programs outside the fleet use of a token: all instances
// together use at most what the site says is left.
func TestAFleetLeavesWhatOthersUseOfAToken(t *testing.T) {
	for _, n := range []int{1, 4, 12} {
		for _, foreign := range []int{10, 30} {
			for _, think := range []time.Duration{0, 3500 * time.Millisecond} {
				t.Run(fmt.Sprintf("%d instances, %d of 60 are used by others, pauses of %v", n, foreign, think), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						late, used := newAnnouncer(&announcer{think: think}).crawl(t, n, foreign, tokensOfThree)
						bound := 5
						if think == 0 {
							bound = 30 // a whole window is sent at once, before the use of others is known
						}
						if late > bound || used < 0.9 {
							t.Errorf("%d are refused after the first window, %.1f %% are used", late, 100*used)
						}
					})
				})
			}
		}
	}
}

// A hidden limit is shared by the fleet as soon as one instance has found it.
func TestAFleetSharesAHiddenLimit(t *testing.T) {
	for n, most := range map[int]int{1: 60, 4: 300, 12: 160} {
		t.Run(fmt.Sprintf("%d instances", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAnnouncer(&announcer{silent: true, windows: 36 - 2*n, think: 3500 * time.Millisecond})
				if late, used := a.crawl(t, n, 0, tokensOfThree); late > most || used < 0.4 {
					t.Errorf("%d are refused after the first window, %.1f %% are used", late, 100*used)
				}
			})
		})
	}
}

// An instance obeys a hidden limit that another instance has found from its own first
// request on.
func TestWhatASiteHidesIsKnownToWhomComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnnouncer(&announcer{silent: true})
		runFleet(t, 2, &reference.Unreliable{Store: reference.New(nil)}, a.serve, tokensOfThree, func(all []rig) {
			crawl := func(w rig, crawlers int, long time.Duration) {
				within, cancel := context.WithTimeout(t.Context(), long)
				defer cancel()
				var wait sync.WaitGroup
				for range crawlers {
					wait.Go(func() {
						for within.Err() == nil {
							w.Do(within, "GET", "http://site.test/x", "")
						}
					})
				}
				wait.Wait()
			}
			startOfWindow(a.window)
			crawl(all[0], 20, 10*a.window)
			startOfWindow(a.window)
			was := a.refusals()
			crawl(all[1], 100, a.window-time.Second)
			// An instance that knows nothing is refused 26 times. How many are refused of one
			// that knows the limit depends on which of its 100 clients come first.
			if n := a.refusals() - was; n > 13 {
				t.Errorf("%d of the first requests are refused", n)
			}
		})
	})
}

// What other instances have used of a shared limit is never shown as left: neither by an instance that has not used the
// limit, nor between two answers of the store.
func TestWhatIsLeftOfASharedLimitIsNotMoreThanTheStoreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &reference.Unreliable{Store: reference.New(nil)}
		runFleet(t, 2, shared, echoing, `
sites:
  - {host: five.test, limits: [{requests: 5, per: day}]}
  - {host: fast.test, limits: [{requests: 60, per: 10s}]}
  - {host: fresh.test, outage: strict, limits: [{requests: 100, per: day}]}
`, func(all []rig) {
			ask := func(i int, host string) (e status.Explanation, left status.ExplainedLimit) {
				t.Helper()
				e, err := all[i].Explain("GET", parseURL("http://"+host+"/"), "me")
				must(t, err)
				e = e.Normalize(time.Now())
				return e, e.Limits[len(e.Limits)-1]
			}
			for range 5 {
				all[0].Get("http://five.test/")
			}
			if e, left := ask(1, "five.test"); !e.Asks || !left.Asks || left.Left != 0 || e.BlockedBy == "" {
				t.Errorf("on an instance that has not used the limit: %+v", e)
			}
			if sites, _ := all[1].Gate().Len(); sites != 0 {
				t.Error("a question made a site")
			}
			all[1].Do(short(t), "GET", "http://five.test/", "")
			if e, left := ask(1, "five.test"); left.Left != 0 || left.Keeps != true {
				t.Errorf("after the answer of the store: %+v", e)
			}

			var waiting sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for range 200 {
				for _, w := range all {
					waiting.Go(func() { w.Do(ctx, "GET", "http://fast.test/", "") })
				}
			}
			elapse(time.Second)
			for range 50 {
				elapse(100 * time.Millisecond)
				for i := range all {
					if e, left := ask(i, "fast.test"); left.Left > 30 {
						t.Fatalf("instance %d says that %d are left while requests wait: %+v", i, left.Left, e)
					}
				}
			}
			cancel()
			waiting.Wait()

			shared.Fails.Store(true)
			elapse(20 * time.Second)
			for range 3 {
				all[1].Do(short(t), "GET", "http://five.test/", "")
				if e, _ := ask(1, "fresh.test"); !e.Away || !e.Expected.IsZero() || !strings.Contains(e.BlockedBy, "the store is away") {
					t.Errorf("with outage: strict: %+v", e)
				}
				all[1].Do(short(t), "GET", "http://fresh.test/", "")
			}
			shared.Fails.Store(false)
		})
	})
}

// short is a context that ends before any wait for a day.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	return ctx
}
