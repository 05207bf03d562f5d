package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const namespace = "abide"

// Metrics are all metrics of one process, in a registry of their own. Make one
// with New. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	sites    *sites
	overhead histogram

	refusals   *counters
	handshakes *counters

	clients     prometheus.Gauge
	tunnels     prometheus.Gauge
	intercepted prometheus.Counter
	signed      prometheus.Counter
	cached      prometheus.Gauge
	reloaded    prometheus.Gauge
	build       *prometheus.GaugeVec
}

// New makes metrics that tell at most maxSites sites apart. The one that was
// not used for longest makes room, and is counted as "other" from then on.
func New(maxSites int) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		sites:    newSites(maxSites),
		refusals: newCounters("own_refusals_total", "Answers that abide gave itself instead of a site, by reason.", "reason"),
		handshakes: newCounters("tls_handshakes_total", "TLS handshakes, by the side they were made with and how they ended.",
			"side", "result"),
		clients:     gauge("client_connections", "Connections of clients that are open."),
		tunnels:     gauge("tunnels", "Tunnels that are open."),
		intercepted: counter("intercepted_connections_total", "CONNECTs whose requests abide reads."),
		signed:      counter("certificates_signed_total", "Certificates made for intercepted hosts."),
		cached:      gauge("certificates_cached", "Certificates kept for intercepted hosts."),
		reloaded:    gauge("config_last_reload_successful", "1 when the configuration file, as it is now, is in force."),
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what is running.",
		}, []string{"version", "goversion"}),
	}
	// Nothing starts without a configuration that is valid.
	m.reloaded.Set(1)
	m.registry.MustRegister(
		m.sites, &single{desc: overheadDesc, h: &m.overhead}, m.refusals.vec, m.handshakes.vec,
		m.clients, m.tunnels, m.intercepted, m.signed, m.cached, m.reloaded, m.build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler serves the metrics as Prometheus reads them. Native histograms are
// in the protobuf form only, which Prometheus asks for when it wants them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry,
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		EnableOpenMetrics:   true,
	})
}

// Site is where a site is counted. The name becomes a label. What it returns
// may be kept and counted into for as long as it is of use.
func (m *Metrics) Site(name string) *Site { return m.sites.site(name) }

// Sites lists the sites that are told apart, by name, and "other".
func (m *Metrics) Sites() []SiteCount { return m.sites.counts() }

// Refused counts an answer of ours. Reasons are words of our own.
func (m *Metrics) Refused(reason string) { m.refusals.inc(pair{reason, ""}) }

// Handshake counts a TLS handshake with the "client" or with the "upstream".
func (m *Metrics) Handshake(side string, ok bool) {
	result := "failed"
	if ok {
		result = "ok"
	}
	m.handshakes.inc(pair{side, result})
}

// Overhead records how long a request was in abide itself.
func (m *Metrics) Overhead(d time.Duration) { m.overhead.observe(d) }

func (m *Metrics) ClientConnected() { m.clients.Inc() }
func (m *Metrics) ClientGone()      { m.clients.Dec() }
func (m *Metrics) TunnelOpened()    { m.tunnels.Inc() }
func (m *Metrics) TunnelClosed()    { m.tunnels.Dec() }

// Intercepted counts a CONNECT that is not tunnelled.
func (m *Metrics) Intercepted() { m.intercepted.Inc() }

// Signed counts a certificate made for a host.
func (m *Metrics) Signed() { m.signed.Inc() }

// CertificateCache says how many of them are kept.
func (m *Metrics) CertificateCache(n int) { m.cached.Set(float64(n)) }

// Reloaded says how reading the configuration again went.
func (m *Metrics) Reloaded(ok bool) {
	value := 0.0
	if ok {
		value = 1
	}
	m.reloaded.Set(value)
}

// BuildInfo says what is running.
func (m *Metrics) BuildInfo(version, goVersion string) {
	m.build.Reset()
	m.build.WithLabelValues(label(version), label(goVersion)).Set(1)
}
