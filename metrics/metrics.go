package metrics

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/abide-proxy/abide/status"
)

// Metrics are all metrics of one process, in a registry of their own. Make it with New. It
// is safe for concurrent use. If you add a metric, also add it to docs/operating.md.
type Metrics struct {
	// What a scrape asks for: see asked.
	Holds *asked[map[status.HeldCount]int] // waiting requests
	// Blocked lists what held requests since the process began, and Observed what limits with mode:
	// observe would have held. A value that falls belongs to a limit that was forgotten and has begun again.
	Blocked, Observed *blockedSums
	// Breakers lists breakers which are not closed. Closed breakers may be listed: they have no
	// series, so that an alert on > 0 ends by itself and sites without faults cost nothing.
	Breakers     *asked[[]status.Breaker]
	Tokens       *tokenCollector
	Jobs         *asked[[]status.Job] // of this process, or else of this machine
	Certificates *asked[int]          // that are cached
	Permits      *asked[int]          // open ones of crawlers without a proxy

	Clients, Tunnels    atomic.Int64       // open connections of clients, and tunnels
	Intercepted, Signed prometheus.Counter // CONNECTs that are not tunnelled, and certificates made for a host

	registry *prometheus.Registry
	sites    *sites
	overhead prometheus.Histogram

	refusals   *counters
	wrong      *counters // wrong secrets
	handshakes *counters

	store                                                 *asked[status.Store]
	storeTook                                             prometheus.Histogram
	storeOperations, storeLent, storeLosses, storeOutages *counters

	reloaded prometheus.Gauge
	build    *prometheus.GaugeVec
}

// New makes metrics with labels for at most maxSites sites. The site unused for longest is
// replaced, and counts as "other" from then on.
func New(maxSites int) *Metrics {
	live := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		sites:    newSites(maxSites),
		overhead: newHistogram("overhead_seconds", "Time that a request spent in abide itself.", answerBuckets),
		wrong: newCounters("wrong_secrets_total", "Secrets of access.clients and tokens of the admin listener that were presented and are wrong.", "listener").
			begin(pair{"proxy", ""}, pair{"admin", ""}),
		refusals: newCounters("own_refusals_total", "Answers that abide gave itself instead of a site, by reason.", "reason"),
		handshakes: newCounters("tls_handshakes_total", "TLS handshakes, by the side they were made with and how they ended.",
			"side", "result").begin(pair{"client", "ok"}, pair{"client", "failed"}, pair{"upstream", "ok"}, pair{"upstream", "failed"}),
		storeTook:       newHistogram("store_duration_seconds", "How long operations on what keeps budgets took.", answerBuckets),
		storeOperations: newCounters("store_operations_total", "Operations on what keeps budgets, by how they ended.", "op", "result"),
		storeLent:       newCounters("store_lent_total", "Units of limits that were taken while the store was away, by the outage rule.", "outage"),
		storeLosses:     newCounters("store_losses_total", "Times that the store has lost budgets, as far as this instance was told: all, or those of one site.", "what"),
		storeOutages:    newCounters("store_outages_total", "Times that the store began to fail. It fails while it does not answer, or answers with an error."),
		Intercepted:     counter("intercepted_connections_total", "CONNECTs whose requests abide reads."),
		Certificates:    askedCount(desc("certificates_cached", "Certificates kept for intercepted hosts.")),
		Signed:          counter("certificates_signed_total", "Certificates made for intercepted hosts."),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "config_last_reload_successful", Help: "1 when the configuration file, as it is now, is in force.",
		}),
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what is running.",
		}, []string{"version", "goversion"}),
	}
	m.Holds, m.Blocked, m.Observed = newHolds(m.sites), newBlocked(m.sites, blockedDesc), newBlocked(m.sites, observedDesc)
	m.Breakers = newBreakers(m.sites)
	m.store = &asked[status.Store]{descs: []*prometheus.Desc{m.storeTook.Desc(), storeUpDesc, storeMembersDesc, utilisationDesc, storeClockDesc, storeWarningsDesc, damagedDesc}, collect: m.collectStore}
	m.Jobs = &asked[[]status.Job]{descs: []*prometheus.Desc{jobRecordsDesc, jobUnitsDesc, jobDoneDesc, jobLagDesc}, collect: collectJobs}
	m.Tokens, m.Permits = newTokens(m.sites), askedCount(permitsDesc)
	// Nothing starts without a configuration that is valid.
	m.reloaded.Set(1)
	m.registry.MustRegister(
		m.sites, m.sites.took, m.sites.waited, m.Holds, m.Blocked, m.Observed, m.Breakers, m.Tokens, m.Jobs, m.storeOperations, m.storeLent, m.storeLosses, m.storeOutages, m.store, m.Permits, m.overhead, m.refusals, m.wrong, m.handshakes,
		live("client_connections", "Connections of clients that are open.", func() float64 { return float64(m.Clients.Load()) }),
		live("tunnels", "Tunnels that are open.", func() float64 { return float64(m.Tunnels.Load()) }),
		m.Certificates, m.Intercepted, m.Signed, m.reloaded, m.build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler serves the metrics. Native histograms are in the protobuf form only, which
// Prometheus requests.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry,
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		EnableOpenMetrics:   true,
	})
}

// Site returns the counters of a site. The name becomes a label. The result may be kept and
// used at any time.
func (m *Metrics) Site(name string) *Site { return m.sites.site(name) }

// Sites lists the sites that are counted apart by name, those without a label, too, and "other".
func (m *Metrics) Sites() []SiteCount { return m.sites.counts() }

// Failed lists the answers from status 400 on that clients got, by site, status and reason.
func (m *Metrics) Failed() map[string][]status.CodeCount {
	failed := map[string][]status.CodeCount{}
	for _, site := range m.sites.all() {
		if list := site.failed(); len(list) > 0 {
			failed[site.name] = list
		}
	}
	return failed
}

// AccessLog has the metric of lines of the access log that were dropped.
func (m *Metrics) AccessLog(dropped func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: namespace, Name: "access_log_dropped_total", Help: "Lines of the access log that were not written.",
	}, func() float64 { return float64(dropped()) }))
}

// RefusalReasons has series at zero for reasons of Refused.
func (m *Metrics) RefusalReasons(reasons []string) {
	for _, one := range reasons {
		m.refusals.begin(pair{one, ""})
	}
}

// Refused counts an answer that abide gave itself. Reasons are fixed words.
func (m *Metrics) Refused(reason string) { m.refusals.inc(pair{reason, ""}) }

// OwnAnswers counts the answers that abide gave itself, by reason.
func (m *Metrics) OwnAnswers() map[string]uint64 {
	counts := map[string]uint64{}
	for p, n := range m.refusals.tally.all() {
		if n := n.Load(); n > 0 {
			counts[p[0]] = n
		}
	}
	return counts
}

// WrongSecret counts a wrong secret presented to the "proxy" or "admin" listener.
func (m *Metrics) WrongSecret(listener string) { m.wrong.inc(pair{listener, ""}) }

// Handshake counts a TLS handshake with a "client" or "upstream".
func (m *Metrics) Handshake(side string, ok bool) {
	m.handshakes.inc(pair{side, result(ok)})
}

// Overhead records how long abide itself took for a request.
func (m *Metrics) Overhead(d time.Duration) { observe(m.overhead, d) }

// Reloaded records whether a reload of the configuration succeeded.
func (m *Metrics) Reloaded(ok bool) {
	value := 0.0
	if ok {
		value = 1
	}
	m.reloaded.Set(value)
}

// BuildInfo sets the version that is running.
func (m *Metrics) BuildInfo(version, goVersion string) {
	m.build.Reset()
	m.build.WithLabelValues(label(version), label(goVersion)).Set(1)
}

var (
	jobRecordsDesc = desc("job_records_total", "Records that a job has in its output.", "job")
	jobUnitsDesc   = desc("job_units", "Units of a job, by state.", "job", "state")
	jobDoneDesc    = desc("job_done_timestamp_seconds", "When a run of a job ended last with all units done, in seconds since 1970.", "job")
	jobLagDesc     = desc("job_round_lag_seconds", "How late the last target of a round was asked by a collection.", "job")
)

func collectJobs(list []status.Job, to chan<- prometheus.Metric) {
	jobs := map[string]status.Job{}
	for _, one := range list { // of several processes that share an output, the one that counted last
		if name := label(one.Name); one.Records >= jobs[name].Records {
			jobs[name] = one
		}
	}
	for name, one := range jobs {
		to <- prometheus.MustNewConstMetric(jobRecordsDesc, prometheus.CounterValue, float64(one.Records), name)
		if one.Round != nil {
			to <- gaugeOf(jobLagDesc, one.Round.Lag, name)
			continue
		}
		if !one.Done.IsZero() {
			to <- gaugeOf(jobDoneDesc, float64(one.Done.Unix()), name)
		}
		for state, n := range map[string]int64{
			"waiting": one.Units.Waiting, "running": one.Units.Running, "done": one.Units.Done,
			"failed": one.Units.Failed, "incomplete": one.Units.Incomplete, "open": one.Units.Open,
		} {
			to <- gaugeOf(jobUnitsDesc, float64(n), name, state)
		}
	}
}
