package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/abide-proxy/abide/status"
)

// Breakers sets the function that lists breakers which are not closed. Closed breakers may
// be listed: they have no series, so that an alert on > 0 ends by itself and sites without
// faults cost nothing.
func (m *Metrics) Breakers(now func() []status.Breaker) { m.breakers.now.Store(&now) }

// breakers collects the breakers at a scrape. Sites beyond the maximum share the label
// "other", which shows the worst of them.
type breakers struct {
	sites *sites
	now   atomic.Pointer[func() []status.Breaker]
}

var breakerDesc = desc("breaker_state",
	"Breakers that are not closed: 1 is half-open, 2 is open. That of a backend has site/backend as its site.", "site")

func (b *breakers) Describe(to chan<- *prometheus.Desc) { to <- breakerDesc }

func (b *breakers) Collect(to chan<- prometheus.Metric) {
	now := b.now.Load()
	if now == nil {
		return
	}
	worst := map[string]float64{} // :: label → state
	for _, one := range (*now)() {
		if state := breakerStates[one.State]; state > 0 {
			at := b.label(one)
			worst[at] = max(worst[at], state)
		}
	}
	for at, state := range worst {
		to <- prometheus.MustNewConstMetric(breakerDesc, prometheus.GaugeValue, state, at)
	}
}

var breakerStates = map[string]float64{"half-open": 1, "open": 2}

// label has at most as many values as configured backends for each labelled site.
func (b *breakers) label(breaker status.Breaker) string {
	site := b.sites.labelOf(breaker.Site)
	if breaker.Backend == "" || site == other {
		return site
	}
	return label(site + "/" + breaker.Backend)
}
