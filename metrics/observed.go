package metrics

import "github.com/prometheus/client_golang/prometheus"

// Observed names who knows for how long limits would have held requests back that were
// only observed, since the process began.
func (m *Metrics) Observed(since func() []BlockedTime) { m.observed.blocked(since) }

// observed is the queue's time that would have been, with mode: observe.
type observed struct{ *queue }

var observedDesc = desc("observed_wait_seconds_total", "How long a limit would have held requests back with mode: enforce: seconds times requests.", "site", "limit")

func (o observed) Describe(to chan<- *prometheus.Desc) { to <- observedDesc }

func (o observed) Collect(to chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fold()
	for site, limits := range o.total {
		for limit, seconds := range limits {
			to <- prometheus.MustNewConstMetric(observedDesc, prometheus.CounterValue, seconds, site, limit)
		}
	}
}
