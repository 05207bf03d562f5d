package main

import "github.com/abide-proxy/abide/admin"

// mostLearned is how many sites of which something was learned are listed.
const mostLearned = 10_000

// fleetOptions are what the operator's listener knows of limits, permits, quotas and
// what keeps budgets.
func (a *program) fleetOptions(o admin.Options) admin.Options {
	o.Limits, o.Overrides = a.writtenLimits, a.proxy.Overrides
	o.Learned = func() []string { return a.proxy.LearnedSites(mostLearned) }
	o.SetLimits, o.ClearLimits = a.setLimits, a.clearLimits
	o.Permit, o.Settle = a.permit, a.settle
	o.Forecast, o.Bandwidth = a.forecast, a.kept.bandwidth()
	o.Store = a.storeNow
	if a.source != nil {
		o.Reload, o.Refused = a.reloadAsked, a.refused.status
	}
	a.metrics.Permits(a.proxy.OpenPermits)
	if a.proxy.Store().Kind != "none" {
		a.metrics.Store(a.storeState)
	}
	return o
}
