package metrics

import (
	"testing"

	"github.com/abide-proxy/abide/status"
)

func TestWhatWasObservedIsAMetricOfItsOwn(t *testing.T) {
	m := New(1)
	m.Site("api.test")
	m.Observed.Ask(func() []status.BlockedTime {
		return []status.BlockedTime{{Site: "api.test", Limit: "10 per 1m", Seconds: 9.5}, {Site: "x.test", Limit: "10 per 1m", Seconds: 1}}
	})
	expect(t, m, 9.5, "abide_observed_wait_seconds_total", "site", "api.test", "limit", "10 per 1m")
	expect(t, m, 1, "abide_observed_wait_seconds_total", "site", "other", "limit", "10 per 1m")
	expect(t, m, 0, "abide_queue_blocked_seconds_total")
}

// TestASiteThatIsKnownFromBeforeKeepsItsName: no request to it has come since the start. Where no label is left it is "other".
func TestASiteThatIsKnownFromBeforeKeepsItsName(t *testing.T) {
	m := New(2)
	known := []status.BlockedTime{{Site: "a.test", Limit: "x", Seconds: 1}, {Site: "b.test", Limit: "x", Seconds: 2}}
	m.Observed.Ask(func() []status.BlockedTime { return known })
	for _, others := range []float64{0, 4} {
		expect(t, m, 1, "abide_observed_wait_seconds_total", "site", "a.test")
		expect(t, m, 2, "abide_observed_wait_seconds_total", "site", "b.test")
		expect(t, m, others, "abide_observed_wait_seconds_total", "site", "other")
		known = append(known, status.BlockedTime{Site: "c.test", Limit: "x", Seconds: 4})
	}
}
