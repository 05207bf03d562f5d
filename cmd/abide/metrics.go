package main

import (
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

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
