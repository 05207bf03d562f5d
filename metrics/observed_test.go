package metrics

import "testing"

func TestWhatWasObservedIsAMetricOfItsOwn(t *testing.T) {
	m := New(10)
	m.Site("api.test")
	m.Observed.Ask(func() []BlockedTime { return []BlockedTime{{"api.test", "10 per 1m", 9.5}, {"x.test", "10 per 1m", 1}} })
	expect(t, m, 9.5, "abide_observed_wait_seconds_total", "site", "api.test", "limit", "10 per 1m")
	expect(t, m, 1, "abide_observed_wait_seconds_total", "site", "other", "limit", "10 per 1m")
	expect(t, m, 0, "abide_queue_blocked_seconds_total")
}
