package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/store"
)

// announcer is a site that counts by token, in windows that begin with its clock, or
// with the first request after the last one.
type announcer struct {
	amount   int
	window   time.Duration
	first    bool // windows begin with a request
	relative bool // resets are said as seconds from now

	mu      sync.Mutex
	counts  map[string]int       // :: secret → of the present window
	ends    map[string]time.Time // :: secret → when that ends
	total   map[string]map[time.Time]int
	refused []time.Time
}

func (a *announcer) serve(rw http.ResponseWriter, r *http.Request) {
	elapse(20 * time.Millisecond)
	a.mu.Lock()
	now, secret := time.Now(), secretOf(r)
	if !now.Before(a.ends[secret]) {
		a.counts[secret], a.ends[secret] = 0, now.Truncate(a.window).Add(a.window)
		if a.first {
			a.ends[secret] = now.Add(a.window)
		}
	}
	end := a.ends[secret]
	fits := a.counts[secret] < a.amount
	if fits {
		a.counts[secret]++
		if a.total[secret] == nil {
			a.total[secret] = map[time.Time]int{}
		}
		a.total[secret][end]++
	} else {
		a.refused = append(a.refused, now)
	}
	left := a.amount - a.counts[secret]
	a.mu.Unlock()
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

// crew are proxies of one fleet, in a bubble.
func crew(t *testing.T, n int, shared store.Store, sites http.HandlerFunc, yaml string, test func(all []*world)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	back := newMemory()
	origin := &http.Server{ErrorLog: quietLog(), Handler: sites}
	running.Go(func() { origin.Serve(back) })
	var all []*world
	for i := range n {
		w := &world{t: t, front: newMemory(), back: back, sites: sites, began: time.Now(), yaml: yaml}
		authority, err := ca.Open("", ca.Options{})
		must(t, err)
		log := logrus.New()
		log.SetOutput(&w.log)
		id := fmt.Sprint("instance ", i)
		w.server, err = New(Options{
			Policy: w.policy(yaml), CA: authority, Metrics: metrics.New(100), Log: log,
			Keeping: Keeping{Store: shared, Shared: true, Instance: id, Name: id},
		})
		must(t, err)
		w.server.state.Load().upstream.Dial = w.dial
		running.Go(func() { w.server.Serve(ctx, w.front) })
		all = append(all, w)
	}
	synctest.Wait()
	elapse(store.Settling + time.Second)
	test(all)
	for _, w := range all {
		for _, c := range w.clients {
			c.CloseIdleConnections()
		}
	}
	cancel()
	synctest.Wait()
	origin.Close()
	running.Wait()
}

// A fleet divides what a site announces for each token, as one process would use it:
// nothing is refused after the first window, and what there is is used.
func TestAFleetDividesWhatASiteAnnounces(t *testing.T) {
	const yaml = "pools: {p: {tokens: [{label: a, secret: a-secret}, {label: b, secret: b-secret}, {label: c, secret: c-secret}]}}\n" +
		"sites:\n  - {host: site.test, insecure: true, pool: p}\n"
	for _, site := range []*announcer{{}, {relative: true}, {first: true}, {first: true, relative: true}} {
		for _, n := range []int{1, 4, 12} {
			t.Run(fmt.Sprintf("%d instances, first %v, relative %v", n, site.first, site.relative), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					elapse(time.Until(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)))
					a := &announcer{
						amount: 60, window: 20 * time.Second, first: site.first, relative: site.relative,
						counts: map[string]int{}, ends: map[string]time.Time{}, total: map[string]map[time.Time]int{},
					}
					shared := &trouble{Store: store.NewMemory(nil)}
					shared.slow.Store(int64(2 * time.Millisecond))
					crew(t, n, shared, a.serve, yaml, func(all []*world) {
						begins(a.window)
						begin, ctx := time.Now(), t.Context()
						end := begin.Add(8 * a.window)
						var crawlers sync.WaitGroup
						for _, w := range all {
							for range 48 / n {
								crawlers.Go(func() {
									c := w.client()
									for time.Now().Before(end.Add(-time.Second)) {
										within, cancel := context.WithDeadline(ctx, end)
										w.do(within, c, "GET", "http://site.test/x", nil)
										cancel()
									}
								})
							}
						}
						crawlers.Wait()
						late := 0
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
						used := float64(served) / float64(windows*a.amount)
						t.Logf("%d refused, %d of them after the first window; %.1f %% of %d windows used", len(a.refused), late, 100*used, windows)
						bound := 0
						if n > 1 && (site.first || site.relative) {
							bound = 5 // instances differ about the end of a window by up to a second
						}
						if late > bound || used < 0.9 {
							t.Errorf("%d are refused after the first window, %.1f %% are used", late, 100*used)
						}
					})
				})
			})
		}
	}
}
