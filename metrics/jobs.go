package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/abide-proxy/abide/status"
)

// Jobs sets the function that lists the jobs of this process.
func (m *Metrics) Jobs(now func() []status.Job) { m.jobs.now.Store(&now) }

// jobs collects how far the jobs of this process are, at a scrape.
type jobs struct {
	now atomic.Pointer[func() []status.Job]
}

var (
	jobRecordsDesc = desc("job_records_total", "Records that a job has in its output.", "job")
	jobUnitsDesc   = desc("job_units", "Units of a job, by state.", "job", "state")
	jobLagDesc     = desc("job_round_lag_seconds", "How late the last target of a round was asked by a collection.", "job")
)

// Describe implements prometheus.Collector.
func (j *jobs) Describe(to chan<- *prometheus.Desc) {
	to <- jobRecordsDesc
	to <- jobUnitsDesc
	to <- jobLagDesc
}

// Collect implements prometheus.Collector.
func (j *jobs) Collect(to chan<- prometheus.Metric) {
	now := j.now.Load()
	if now == nil {
		return
	}
	for _, one := range (*now)() {
		name := label(one.Name)
		to <- prometheus.MustNewConstMetric(jobRecordsDesc, prometheus.CounterValue, float64(one.Records), name)
		if one.Round != nil {
			to <- prometheus.MustNewConstMetric(jobLagDesc, prometheus.GaugeValue, one.Round.Lag, name)
			continue
		}
		for state, n := range map[string]int64{
			"waiting": one.Units.Waiting, "running": one.Units.Running, "done": one.Units.Done,
			"failed": one.Units.Failed, "incomplete": one.Units.Incomplete,
		} {
			to <- prometheus.MustNewConstMetric(jobUnitsDesc, prometheus.GaugeValue, float64(n), name, state)
		}
	}
}
