package metrics

import "testing"

func TestWhatWasObservedIsAMetricOfItsOwn(t *testing.T) {
	m := New(1)
	m.Site("api.test")
	m.Observed.Ask(func() []BlockedTime { return []BlockedTime{{"api.test", "10 per 1m", 9.5}, {"x.test", "10 per 1m", 1}} })
	expect(t, m, 9.5, "abide_observed_wait_seconds_total", "site", "api.test", "limit", "10 per 1m")
	expect(t, m, 1, "abide_observed_wait_seconds_total", "site", "other", "limit", "10 per 1m")
	expect(t, m, 0, "abide_queue_blocked_seconds_total")
}

// TestASiteThatIsKnownFromBeforeKeepsItsName: no request to it has come since the start. Where no label is left it is "other".
func TestASiteThatIsKnownFromBeforeKeepsItsName(t *testing.T) {
	m := New(2)
	known := []BlockedTime{{"a.test", "x", 1}, {"b.test", "x", 2}}
	m.Observed.Ask(func() []BlockedTime { return known })
	for _, others := range []float64{0, 4} {
		expect(t, m, 1, "abide_observed_wait_seconds_total", "site", "a.test")
		expect(t, m, 2, "abide_observed_wait_seconds_total", "site", "b.test")
		expect(t, m, others, "abide_observed_wait_seconds_total", "site", "other")
		known = append(known, BlockedTime{"c.test", "x", 4})
	}
}
