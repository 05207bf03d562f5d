package main

import (
	"context"
	"errors"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
)

// setLimits sets the limits of a site at run time, for the operator's listener.
func (a *program) setLimits(ctx context.Context, site string, body []byte) error {
	limits, err := a.proxy.SetLimits(ctx, site, body)
	return limitsError(limits, err)
}

// limitsError says whose fault it is. Limits that hold were not kept.
func limitsError(limits []policy.Limit, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, proxy.ErrNoSuchSite):
		return admin.Missing(err.Error())
	case limits != nil:
		return admin.NotKept{Err: err}
	}
	return err
}

// clearLimits gives a site the limits of its rule again.
func (a *program) clearLimits(ctx context.Context, site string) (bool, error) {
	set, err := a.proxy.ClearLimits(ctx, site)
	if err != nil {
		err = admin.NotKept{Err: err}
	}
	return set, err
}

// writtenLimits are what is left of the limits that the operator wrote.
func (a *program) writtenLimits() []admin.SiteLimit { return siteLimitsOf(a.proxy.WrittenLimits()) }

func siteLimitsOf(all []proxy.WrittenLimit) []admin.SiteLimit {
	list := make([]admin.SiteLimit, len(all))
	for i, one := range all {
		list[i] = admin.SiteLimit{
			Site: one.Site, Limit: one.Limit, Of: one.Whose, Amount: one.Amount, Left: one.Left, Rate: one.Rate,
			Most: one.Most, Unit: one.Unit, Per: one.Per, Shared: one.Shared, Kept: one.Kept,
		}
	}
	return list
}

// known are tokens and limits, those of the operator too, for the metrics.
func (a *program) known() metrics.Known {
	known := a.tokenMetrics()
	known.Written = writtenOf(a.proxy.WrittenLimits())
	return known
}

func writtenOf(all []proxy.WrittenLimit) []metrics.Written {
	list := make([]metrics.Written, len(all))
	for i, one := range all {
		list[i] = metrics.Written{Site: one.Site, Name: one.Limit, Whose: one.Whose, Amount: one.Most, Left: one.Left, Rate: one.Rate}
	}
	return list
}
