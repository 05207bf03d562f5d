package main

import (
	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/proxy"
)

// forecast tells how long limits last, for the operator's listener.
func (a *program) forecast(site string, requests int64) []admin.Forecast {
	return forecastsOf(a.proxy.Forecast(site, requests))
}

func forecastsOf(all []proxy.Forecast) []admin.Forecast {
	list := make([]admin.Forecast, len(all))
	for i, one := range all {
		list[i] = admin.Forecast{
			Site: one.Site, Limit: one.Limit, Of: one.Whose, Amount: one.Amount, Used: one.Used, Left: one.Left, Unit: one.Unit,
			Opens: one.Opens, Ends: one.Ends, Rate: one.Rate, RunsOut: one.RunsOut, Done: one.Done,
		}
	}
	return list
}
