package metrics

import "github.com/prometheus/client_golang/prometheus"

// Observed sets the function that lists how long limits with mode: observe would have held
// requests, since the process began.
func (m *Metrics) Observed(since func() []BlockedTime) { m.observed.blocked(since) }

// observed collects the times that mode: observe would have held requests.
type observed struct{ *queue }

var observedDesc = desc("observed_wait_seconds_total", "How long a limit would have held requests back with mode: enforce: seconds times requests.", "site", "limit")

func (o observed) Describe(to chan<- *prometheus.Desc) { to <- observedDesc }

func (o observed) Collect(to chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addSince()
	for site, limits := range o.total {
		for limit, seconds := range limits {
			to <- prometheus.MustNewConstMetric(observedDesc, prometheus.CounterValue, seconds, site, limit)
		}
	}
}
