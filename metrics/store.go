package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreState is the present state of the store of budgets.
type StoreState struct {
	Up      bool // the last operation succeeded
	Members int  // instances that use it, including this one
	// Utilisation is the used part of what the store granted, 0 to 1. Negative: unknown.
	Utilisation float64
	// Clock is the lead of the store's clock over this machine's; nil: unknown.
	Clock *time.Duration
	// Damaged counts damaged parts that were moved aside: the state file, and rows of it.
	Damaged map[string]int
}

// storeMetrics are the metrics of the store.
type storeMetrics struct {
	operations *counters
	lent       *counters
	losses     *counters
	outages    *counters
	took       prometheus.Histogram
	state      *asked[StoreState]
}

func newStore() *storeMetrics {
	s := &storeMetrics{
		took: newHistogram("store_duration_seconds", "How long operations on what keeps budgets took.", answerBuckets),
		operations: newCounters("store_operations_total",
			"Operations on what keeps budgets, by how they ended.", "op", "result"),
		lent: newCounters("store_lent_total",
			"Units of limits that were taken while the store was away, by the outage rule.", "outage"),
		losses: newCounters("store_losses_total",
			"Times that the store has lost budgets, as far as this instance was told: all, or those of one site.", "what"),
		outages: newCounters("store_outages_total",
			"Times that the store began to fail. It fails while it does not answer, or answers with an error."),
	}
	s.state = &asked[StoreState]{
		descs:   []*prometheus.Desc{s.took.Desc(), storeUpDesc, storeMembersDesc, utilisationDesc, storeClockDesc, damagedDesc},
		collect: s.collect,
	}
	return s
}

var (
	storeUpDesc      = desc("store_up", "1 when what keeps budgets answered the last time; 0: limits go by their outage rule.")
	storeMembersDesc = desc("store_members", "Instances that keep budgets together, this one included.")
	utilisationDesc  = desc("lease_utilisation_ratio", "The part of what the store has granted to this instance that was used.")
	storeClockDesc   = desc("store_clock_seconds", "By how much the clock of what keeps budgets is ahead of this machine's.")
	damagedDesc      = desc("state_damaged", "What was set aside of the state file since the process began, because it was damaged.", "what")
	permitsDesc      = desc("permits_open", "Permits of crawlers that use no proxy, granted and neither settled nor expired.")
)

func (s *storeMetrics) collect(now StoreState, to chan<- prometheus.Metric) {
	up := 0.0
	if now.Up {
		up = 1
	}
	to <- gaugeOf(storeUpDesc, up)
	to <- gaugeOf(storeMembersDesc, float64(now.Members))
	if now.Clock != nil {
		to <- gaugeOf(storeClockDesc, now.Clock.Seconds())
	}
	for what, n := range now.Damaged {
		to <- gaugeOf(damagedDesc, float64(n), what)
	}
	if now.Utilisation >= 0 && !math.IsInf(now.Utilisation, 0) { // not NaN either
		to <- gaugeOf(utilisationDesc, min(now.Utilisation, 1))
	}
	to <- s.took
}
