package metrics

import (
	"net/http"
	"sync/atomic"
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
	queue    *queue
	observed observed
	breakers *breakers
	tokens   *tokenCollector
	store    *storeCollector
	overhead histogram

	refusals   *counters
	wrong      *counters // secrets
	handshakes *counters

	clients     atomic.Int64
	tunnels     atomic.Int64
	intercepted prometheus.Counter
	signed      prometheus.Counter
	cached      atomic.Pointer[func() int]
	reloaded    prometheus.Gauge
	build       *prometheus.GaugeVec
}

// New makes metrics that tell at most maxSites sites apart. The one that was
// not used for longest makes room, and is counted as "other" from then on.
func New(maxSites int) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	}
	live := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		sites:    newSites(maxSites),
		wrong:    newCounters("wrong_secrets_total", "Secrets of access.clients and tokens of the admin listener that were presented and are wrong.", "listener"),
		refusals: newCounters("own_refusals_total", "Answers that abide gave itself instead of a site, by reason.", "reason"),
		handshakes: newCounters("tls_handshakes_total", "TLS handshakes, by the side they were made with and how they ended.",
			"side", "result"),
		intercepted: counter("intercepted_connections_total", "CONNECTs whose requests abide reads."),
		signed:      counter("certificates_signed_total", "Certificates made for intercepted hosts."),
		reloaded:    gauge("config_last_reload_successful", "1 when the configuration file, as it is now, is in force."),
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what is running.",
		}, []string{"version", "goversion"}),
	}
	m.observed = observed{newQueue(m.sites)}
	m.queue, m.breakers, m.tokens, m.store = newQueue(m.sites), &breakers{sites: m.sites}, newTokens(m.sites), newStore()
	// Nothing starts without a configuration that is valid.
	m.reloaded.Set(1)
	m.registry.MustRegister(
		m.sites, m.queue, m.observed, m.breakers, m.tokens, m.store, &single{desc: overheadDesc, h: &m.overhead}, m.refusals.vec, m.wrong.vec, m.handshakes.vec,
		live("client_connections", "Connections of clients that are open.", func() float64 { return float64(m.clients.Load()) }),
		live("tunnels", "Tunnels that are open.", func() float64 { return float64(m.tunnels.Load()) }),
		live("certificates_cached", "Certificates kept for intercepted hosts.", func() float64 { return float64(m.certificates()) }),
		m.intercepted, m.signed, m.reloaded, m.build,
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

// LastMinute is how many requests of a site were answered in the last minute, 0 for a
// site that is not told apart.
func (m *Metrics) LastMinute(site string) uint64 {
	one := m.sites.find(label(site))
	if site == other {
		one = m.sites.other
	}
	if one == nil {
		return 0
	}
	return one.recent.lastMinute(time.Now())
}

// Refused counts an answer of ours. Reasons are words of our own.
func (m *Metrics) Refused(reason string) { m.refusals.inc(pair{reason, ""}) }

// WrongSecret counts a secret that was presented to the "proxy" or to the "admin" listener
// and is wrong.
func (m *Metrics) WrongSecret(listener string) { m.wrong.inc(pair{listener, ""}) }

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

func (m *Metrics) ClientConnected() { m.clients.Add(1) }
func (m *Metrics) ClientGone()      { m.clients.Add(-1) }
func (m *Metrics) TunnelOpened()    { m.tunnels.Add(1) }
func (m *Metrics) TunnelClosed()    { m.tunnels.Add(-1) }

// Intercepted counts a CONNECT that is not tunnelled.
func (m *Metrics) Intercepted() { m.intercepted.Inc() }

// Signed counts a certificate made for a host.
func (m *Metrics) Signed() { m.signed.Inc() }

// CertificateCache names who knows how many of them are kept.
func (m *Metrics) CertificateCache(count func() int) { m.cached.Store(&count) }

func (m *Metrics) certificates() int {
	if count := m.cached.Load(); count != nil {
		return (*count)()
	}
	return 0
}

// Open is how many connections of clients are open, and how many tunnels.
func (m *Metrics) Open() (clients, tunnels int) {
	return int(m.clients.Load()), int(m.tunnels.Load())
}

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
