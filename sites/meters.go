package sites

import (
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
)

// meterSource makes the meters of a learned limit.
type meterSource struct {
	site    *Site
	hidden  string         // ID of a hidden limit; "": announced
	options ledger.Options // of an announced limit
}

// NewMeter makes an empty meter.
func (l *meterSource) NewMeter() limit.Meter {
	if l.hidden != "" {
		return ledger.NewHiddenRate(l.site.historyOf(l.hidden))
	}
	return ledger.New(l.options)
}

// External restores a new meter after a restart, and shares it with the fleet.
func (l *meterSource) External(site string, at queue.Scope, _ limit.Spec, m limit.Meter) limit.Meter {
	if l.site.external == nil {
		return nil
	}
	return l.site.external(site, at, m)
}

// firstRequest makes the meters of routes whose limits are unknown.
type firstRequest struct{}

// NewMeter lets one request go alone.
func (firstRequest) NewMeter() limit.Meter { return ledger.NewUnknownRoute() }

// External returns nil: such a meter ends with the first answer.
func (firstRequest) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }

// slowStart makes the meter of a site that has answered few requests.
type slowStart struct{ site *Site }

// NewMeter lets as many requests go at once as the answers so far allow.
func (l slowStart) NewMeter() limit.Meter { return ledger.NewSlowStart(l.site.successes()) }

// External returns nil: such a meter ends soon.
func (slowStart) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }
