package metrics

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestTheStoreIsCountedAndAsked(t *testing.T) {
	m := New(10)
	for _, name := range []string{"abide_store_up", "abide_store_members", "abide_lease_utilisation_ratio", "abide_store_duration_seconds", "abide_permits_open"} {
		if scrape(t, m)[name] != nil {
			t.Errorf("%s is there without a store", name)
		}
	}
	m.StoreOperation("exchange", true, time.Millisecond)
	m.StoreOperation("exchange", true, 3*time.Millisecond)
	m.StoreOperation("exchange", false, time.Second)
	m.StoreOperation("pulse", true, 0)
	behind := -15 * time.Second
	storeState := status.Store{Clock: &behind, Count: 4, Granted: 4, Spent: 3}
	m.Store(func() status.Store { return storeState })
	m.Permits.Ask(func() int { return 7 })
	expect(t, m, 2, "abide_store_operations_total", "op", "exchange", "result", "ok")
	expect(t, m, 1, "abide_store_operations_total", "op", "exchange", "result", "failed")
	expect(t, m, 1, "abide_store_operations_total", "op", "pulse", "result", "ok")
	m.StoreLent("share", 30)
	m.StoreLent("share", 7)
	expect(t, m, 37, "abide_store_lent_total", "outage", "share")
	expect(t, m, 0, "abide_store_outages_total")
	m.StoreAway()
	expect(t, m, 1, "abide_store_outages_total")
	m.StoreLost("site")
	expect(t, m, 1, "abide_store_losses_total", "what", "site")
	expect(t, m, 0, "abide_store_losses_total", "what", "all")
	expect(t, m, 1, "abide_store_up")
	expect(t, m, -15, "abide_store_clock_seconds")
	expect(t, m, 4, "abide_store_members")
	expect(t, m, 0.75, "abide_lease_utilisation_ratio")
	expect(t, m, 7, "abide_permits_open")
	if h := scrape(t, m)["abide_store_duration_seconds"].Metric[0].Histogram; h.GetSampleCount() != 4 || math.Abs(h.GetSampleSum()-1.004) > 1e-6 {
		t.Errorf("%v", h)
	}
	expect(t, m, 0, "abide_store_warnings")
	storeState = status.Store{Since: time.Now(), Warnings: []string{"its maxmemory-policy is allkeys-lru"}}
	expect(t, m, 1, "abide_store_warnings")
	expect(t, m, 0, "abide_store_up")
	if scrape(t, m)["abide_lease_utilisation_ratio"] != nil {
		t.Error("a utilisation is told where nothing was granted")
	}
	storeState.Granted, storeState.Spent = 2, 3 // a lease ended while its use was counted
	expect(t, m, 1, "abide_lease_utilisation_ratio")
}

func TestLimitsOfTheOperatorAreToldWithThoseOfSites(t *testing.T) {
	m := New(1)
	m.Site("api.test")
	knowing(m, testKnown{
		Limits: []testLimit{
			{Site: "api.test", Name: "75 per 15m", Limit: 75, Remaining: 60},
			{Site: "api.test", Name: "both", Limit: 100, Remaining: 10},
			{Site: "api.test", Name: "both too", Limit: 100, Remaining: 90},
		},
		Written: []status.Limit{
			{Site: "api.test", Limit: "10 per 1s by token", Of: "a", Amount: 7, Most: 10, Left: 4},
			{Site: "api.test", Limit: "10 per 1s by token", Of: "b", Most: 10, Left: 1},
			{Site: "api.test", Limit: "unknown", Most: 10, Left: -1},
			{Site: "api.test", Limit: "without an amount", Most: -1, Left: 3},
			{Site: "api.test", Limit: "both", Most: 50, Left: 50},
			{Site: "api.test", Limit: "both too", Most: 50, Left: 5},
			{Site: "a.test", Limit: "10 per 1s", Most: 10, Left: 10},
			{Site: "b.test", Limit: "10 per 1s", Most: 10, Left: 5},
			{Site: "api.test", Limit: "adaptive between 1/s and 9/s by client", Of: "x", Left: 1 << 50, Rate: 4.5},
			{Site: "api.test", Limit: "adaptive between 1/s and 9/s by client", Of: "y", Left: 1 << 50, Rate: 2.5},
		},
	})
	for range 2 {
		for limit, want := range map[string][2]float64{
			"75 per 15m": {60, 0.2}, "10 per 1s by token": {5, 0.75}, "unknown": {0, 0}, "without an amount": {3, 0}, "both": {10, 0.9}, "both too": {5, 0.9},
		} {
			expect(t, m, want[0], "abide_limit_remaining", "site", "api.test", "limit", limit)
			expect(t, m, want[1], "abide_limit_usage_ratio", "site", "api.test", "limit", limit)
		}
		expect(t, m, 15, "abide_limit_remaining", "site", "other", "limit", "10 per 1s")
		expect(t, m, 2.5, "abide_limit_rate", "site", "api.test", "limit", "adaptive between 1/s and 9/s by client")
		expect(t, m, 0, "abide_limit_remaining", "limit", "adaptive between 1/s and 9/s by client")
	}
}

func TestTheNamesOfWrittenLimitsAreBounded(t *testing.T) {
	m := New(10)
	m.Site("api.test")
	var k testKnown
	for i := range 1000 {
		k.Written = append(k.Written, status.Limit{Site: "api.test", Limit: fmt.Sprintf("%04d%s\xff", i, strings.Repeat("x", 300)), Most: 1, Left: 1})
		k.Limits = append(k.Limits, testLimit{Site: "api.test", Name: fmt.Sprint("announced ", i), Limit: 1, Remaining: 1})
	}
	knowing(m, k)
	if n := len(scrape(t, m)["abide_limit_remaining"].Metric); n > maxRoutes+1 {
		t.Errorf("%d series", n)
	}
}

func TestReasonsOfOursHaveRoom(t *testing.T) {
	m := New(10)
	for i := range maxChildren - 5 {
		m.Refused(fmt.Sprint("reason ", i))
	}
	for _, one := range []string{"bytes", "stall", "store", "shard", "permit"} {
		m.Refused(one)
		expect(t, m, 1, "abide_own_refusals_total", "reason", one)
	}
}
