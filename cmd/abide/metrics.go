package main

import (
	"cmp"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/status"
)

// knownTokens are the tokens and limits for the metrics.
func (a *program) knownTokens() metrics.Known {
	known := metricsOf(a.proxy.Tokens())
	known.Written = a.proxy.WrittenLimits()
	return known
}

func metricsOf(all status.Tokens) (k metrics.Known) {
	for _, p := range all.Pools {
		for _, t := range p.Tokens {
			k.Tokens = append(k.Tokens, metrics.Token{
				Pool: p.Name, Name: t.Label, State: t.State, Uses: t.Uses, Refusals: t.Refusals, Denials: t.Denials,
			})
			for _, one := range t.Limits {
				limit := announcedLimit(one)
				limit.Pool, limit.Token, limit.Budget = p.Name, t.Label, t.Account()
				k.Limits = append(k.Limits, limit)
			}
		}
	}
	for _, one := range all.Limits {
		k.Limits = append(k.Limits, announcedLimit(one))
	}
	return k
}

func announcedLimit(announced status.Announced) metrics.Announced {
	return metrics.Announced{
		Site: announced.Site, Route: cmp.Or(announced.Route, announced.Title), Name: announced.Name(),
		Limit: announced.Limit, Remaining: announced.Remaining, Reset: announced.Reset, Foreign: announced.Foreign,
	}
}

// holdCounts counts the requests that wait, by site and priority, for the metrics.
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

// blockedTimes converts the times that limits held requests for the metrics.
func blockedTimes(since []dispatch.Blocked) []metrics.BlockedTime {
	return lists.Map(since, func(blocked dispatch.Blocked) metrics.BlockedTime {
		return metrics.BlockedTime{Site: blocked.Site, Limit: blocked.Limit, Seconds: blocked.Seconds}
	})
}

// waiting counts the requests that wait.
func (a *program) waiting() (n int) {
	for _, one := range a.proxy.HeldCounts() {
		n += one
	}
	return n
}
