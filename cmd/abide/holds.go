package main

import (
	"time"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy"
)

// holds are the first of the requests that wait, for the operator's listener.
func (a *program) holds(site string, most int) []admin.Hold {
	now := time.Now()
	waiting := a.proxy.Holds(site)
	list := make([]admin.Hold, 0, min(len(waiting), most))
	for _, h := range waiting[:min(len(waiting), most)] {
		list = append(list, admin.Hold{
			Site: h.Site, Client: h.Client, Priority: h.Priority, Waited: now.Sub(h.Since).Seconds(),
			Limit: h.Limit, Why: h.Why, Until: h.Until, Asks: h.Asks, Place: h.Place, Expected: h.ETA,
		})
	}
	return list
}

// holdCounts is how many wait, by site and priority, for the metrics.
func (a *program) holdCounts() []metrics.HoldCount {
	type at struct {
		site     string
		priority int
	}
	counts := map[at]int{}
	for h, n := range a.proxy.HeldCounts() {
		counts[at{h.Site, h.Priority}] += n
	}
	list := make([]metrics.HoldCount, 0, len(counts))
	for where, n := range counts {
		list = append(list, metrics.HoldCount{Site: where.site, Priority: where.priority, N: n})
	}
	return list
}

// blockedTimes is how long each limit held requests back, for the metrics.
func blockedTimes(since []proxy.Blocked) []metrics.BlockedTime {
	list := make([]metrics.BlockedTime, len(since))
	for i, one := range since {
		list[i] = metrics.BlockedTime{Site: one.Site, Limit: one.Limit, Seconds: one.Seconds}
	}
	return list
}

// breakers are those of sites and backends that failed lately, for the operator's
// listener.
func (a *program) breakers() []admin.Breaker {
	var list []admin.Breaker
	for _, one := range a.proxy.Breakers() {
		list = append(list, admin.Breaker{Site: one.Site, Backend: one.Backend, State: one.State, Until: one.Until, Why: one.Why})
	}
	return list
}

// breakerStates are the same for the metrics.
func (a *program) breakerStates() []metrics.Breaker {
	var list []metrics.Breaker
	for _, one := range a.breakers() {
		list = append(list, metrics.Breaker{Site: one.Site, Backend: one.Backend, State: one.State})
	}
	return list
}
