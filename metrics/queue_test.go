package metrics

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/status"
)

func TestWaitsReplaysAndRefusalsAreCountedBySite(t *testing.T) {
	m := New(10)
	s := m.Site("api.test")
	s.Waited(0)
	s.Waited(10 * time.Minute)
	s.Replayed("refused")
	s.Replayed("refused")
	s.Replayed("connection")
	s.Replayed("")
	s.Replayed("what a site says")
	s.RefusedBy("site")
	s.RefusedBy("route")
	s.RefusedBy("")
	expect(t, m, 2, "abide_queue_wait_seconds", "site", "api.test")
	expect(t, m, 2, "abide_replays_total", "site", "api.test", "reason", "refused")
	expect(t, m, 1, "abide_replays_total", "site", "api.test", "reason", "connection")
	expect(t, m, 2, "abide_replays_total", "site", "api.test", "reason", "other")
	expect(t, m, 1, "abide_refusals_total", "site", "api.test", "scope", "site")
	expect(t, m, 1, "abide_refusals_total", "site", "api.test", "scope", "route")
	expect(t, m, 1, "abide_refusals_total", "site", "api.test", "scope", "other")
	expect(t, m, 0, "abide_upstream_duration_seconds")
}

func TestALongWaitHasAClassicBucketOfItsOwn(t *testing.T) {
	m := New(10)
	m.Site("api.test").Waited(14 * time.Minute)
	for _, b := range scrape(t, m)["abide_queue_wait_seconds"].Metric[0].Histogram.Bucket {
		if want := b.GetUpperBound() >= 900; (b.GetCumulativeCount() == 1) != want {
			t.Errorf("%d waited for at most %v s", b.GetCumulativeCount(), b.GetUpperBound())
		}
	}
}

func TestTheQueueIsAskedWhenTheMetricsAreRead(t *testing.T) {
	m := New(1)
	expect(t, m, 0, "abide_queue_holds")
	expect(t, m, 0, "abide_queue_blocked_seconds_total")
	m.Site("api.test")
	m.Holds.Ask(func() map[status.HeldCount]int {
		return map[status.HeldCount]int{
			{Site: "api.test", Client: "x", Priority: 3}: 2,
			{Site: "api.test", Priority: 0}:              1,
			{Site: "api.test", Client: "y", Priority: 3}: 4,
			{Site: "a.test", Priority: 3}:                10,
			{Site: "b.test", Priority: 3}:                10,
			{Site: "c.test", Priority: 8}:                1,
			{Site: "c.test", Priority: -1}:               1,
		}
	})
	m.Blocked.Ask(func() []status.BlockedTime {
		return []status.BlockedTime{
			{Site: "api.test", Limit: "2 in flight", Seconds: 1.5},
			{Site: "api.test", Limit: "2 in flight", Seconds: 1},
			{Site: "api.test", Limit: "never", Seconds: 0},
			{Site: "a.test", Limit: "2 in flight", Seconds: 1},
			{Site: "b.test", Limit: "2 in flight", Seconds: 1},
			{Site: "b.test", Limit: "x", Seconds: math.NaN()},
			{Site: "b.test", Limit: "x", Seconds: -1},
			{Site: "b.test", Limit: "x", Seconds: math.Inf(1)},
		}
	})
	for range 2 { // reading changes nothing
		expect(t, m, 6, "abide_queue_holds", "site", "api.test", "priority", "3")
		expect(t, m, 1, "abide_queue_holds", "site", "api.test", "priority", "0")
		expect(t, m, 20, "abide_queue_holds", "site", "other", "priority", "3")
		expect(t, m, 1, "abide_queue_holds", "site", "other", "priority", "7")
		expect(t, m, 1, "abide_queue_holds", "site", "other", "priority", "0")
		expect(t, m, 2.5, "abide_queue_blocked_seconds_total", "site", "api.test", "limit", "2 in flight")
		expect(t, m, 2, "abide_queue_blocked_seconds_total", "site", "other", "limit", "2 in flight")
		expect(t, m, 4.5, "abide_queue_blocked_seconds_total")
	}
}

func TestTheLimitsOfASiteAreBounded(t *testing.T) {
	m := New(1)
	m.Site("api.test")
	m.Blocked.Ask(func() (all []status.BlockedTime) {
		for i := range 1000 {
			all = append(all, status.BlockedTime{Site: "api.test", Limit: fmt.Sprintf("%d in flight", i), Seconds: 1})
		}
		return all
	})
	if n := len(scrape(t, m)["abide_queue_blocked_seconds_total"].Metric); n > maxChildren+1 {
		t.Errorf("%d series", n)
	}
	expect(t, m, 1000, "abide_queue_blocked_seconds_total")
}

// What was blocked is neither lost nor counted twice, whatever the queue forgets
// and whichever site makes room for another.
func TestWhatWasBlockedNeverFalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := New(rapid.IntRange(0, 3).Draw(rt, "max"))
		said := map[pair]float64{}
		m.Blocked.Ask(func() (all []status.BlockedTime) {
			for at, seconds := range said {
				all = append(all, status.BlockedTime{Site: at[0], Limit: at[1], Seconds: seconds})
			}
			return all
		})
		var want, others float64
		name := rapid.StringMatching(`[a-e]`)
		rt.Repeat(map[string]func(*rapid.T){
			"see": func(rt *rapid.T) { m.Site(name.Draw(rt, "site")) },
			"block": func(rt *rapid.T) {
				n := float64(rapid.IntRange(1, 100).Draw(rt, "n"))
				said[pair{name.Draw(rt, "site"), name.Draw(rt, "limit")}] += n
				want += n
			},
			"forget": func(rt *rapid.T) {
				m.Blocked.addSince(m.Blocked.now()) // what nobody reads in time is lost
				delete(said, pair{name.Draw(rt, "site"), name.Draw(rt, "limit")})
				m.Blocked.addSince(m.Blocked.now())
			},
			"forget and begin again": func(rt *rapid.T) {
				at := pair{name.Draw(rt, "site"), name.Draw(rt, "limit")}
				if said[at] > 1 {
					n := float64(rapid.IntRange(1, int(said[at])-1).Draw(rt, "n"))
					m.Blocked.addSince(m.Blocked.now())
					said[at] = n
					want += n
				}
			},
			"": func(rt *rapid.T) {
				m.Blocked.addSince(m.Blocked.now())
				var sum, other float64
				for at, seconds := range m.Blocked.total {
					sum += seconds
					if at[0] == "other" {
						other += seconds
					}
				}
				if sum != want || other < others {
					rt.Fatalf("%v s in all, want %v; other was %v and is %v", sum, want, others, other)
				}
				others = other
				if n := len(m.Blocked.limits); n > max(m.sites.max, 0)+1 {
					rt.Fatalf("%d sites", n)
				}
			},
		})
	})
}

func TestTwoReadersAtOnceCountOnce(t *testing.T) {
	m := New(10)
	m.Site("api.test")
	var mu sync.Mutex
	seconds := 0.0
	m.Blocked.Ask(func() []status.BlockedTime {
		mu.Lock()
		defer mu.Unlock()
		seconds++
		return []status.BlockedTime{{Site: "api.test", Limit: "2 in flight", Seconds: seconds}}
	})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 25 {
				scrape(t, m)
			}
		})
	}
	readers.Wait()
	expect(t, m, 101, "abide_queue_blocked_seconds_total")
}
