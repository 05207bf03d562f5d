package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Breaker is that of a site, or of one of its backends. State is "closed",
// "half-open" or "open".
type Breaker struct {
	Site    string
	Backend string // "" is the site's own
	State   string
}

// Breakers names who knows which breakers are not closed, now. Those that are
// may be among them: a closed breaker has no series, so that an alert on > 0 ends
// by itself, and a million sites that answer cost nothing.
func (m *Metrics) Breakers(now func() []Breaker) { m.breakers.now.Store(&now) }

// breakers is what is told of them when the metrics are read. Sites that are not
// told apart are "other", which shows the worst of them.
type breakers struct {
	sites *sites
	now   atomic.Pointer[func() []Breaker]
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

// label has as many values as the operator wrote backends, at most, for each
// site that is told apart.
func (b *breakers) label(one Breaker) string {
	site := b.sites.told(one.Site)
	if one.Backend == "" || site == other {
		return site
	}
	return label(site + "/" + one.Backend)
}
