package metrics

import (
	"math"
	"sync/atomic"
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

// storeCollector collects the store's metrics at a scrape.
type storeCollector struct {
	operations *counters
	lent       *counters
	losses     *counters
	outages    *counters
	took       prometheus.Histogram
	now        atomic.Pointer[func() StoreState]
	permits    atomic.Pointer[func() int]
}

func newStore() *storeCollector {
	return &storeCollector{
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
}

var (
	storeUpDesc      = desc("store_up", "1 when what keeps budgets answered the last time; 0: limits go by their outage rule.")
	storeMembersDesc = desc("store_members", "Instances that keep budgets together, this one included.")
	utilisationDesc  = desc("lease_utilisation_ratio", "The part of what the store has granted to this instance that was used.")
	storeClockDesc   = desc("store_clock_seconds", "By how much the clock of what keeps budgets is ahead of this machine's.")
	damagedDesc      = desc("state_damaged", "What was set aside of the state file since the process began, because it was damaged.", "what")
	permitsDesc      = desc("permits_open", "Permits of crawlers that use no proxy, granted and neither settled nor expired.")
)

func (c *storeCollector) Describe(to chan<- *prometheus.Desc) {
	c.operations.Describe(to)
	c.lent.Describe(to)
	c.losses.Describe(to)
	c.outages.Describe(to)
	describe(to, c.took.Desc(), storeUpDesc, storeMembersDesc, utilisationDesc, storeClockDesc, permitsDesc, damagedDesc)
}

func (c *storeCollector) Collect(to chan<- prometheus.Metric) {
	c.operations.Collect(to)
	c.lent.Collect(to)
	c.losses.Collect(to)
	c.outages.Collect(to)
	if open := c.permits.Load(); open != nil {
		to <- gaugeOf(permitsDesc, float64((*open)()))
	}
	if now := c.now.Load(); now != nil {
		storeState, up := (*now)(), 0.0
		if storeState.Up {
			up = 1
		}
		to <- gaugeOf(storeUpDesc, up)
		to <- gaugeOf(storeMembersDesc, float64(storeState.Members))
		if storeState.Clock != nil {
			to <- gaugeOf(storeClockDesc, storeState.Clock.Seconds())
		}
		for what, n := range storeState.Damaged {
			to <- gaugeOf(damagedDesc, float64(n), what)
		}
		if storeState.Utilisation >= 0 && !math.IsInf(storeState.Utilisation, 0) { // not NaN either
			to <- gaugeOf(utilisationDesc, min(storeState.Utilisation, 1))
		}
	} else if read(c.took).GetSampleCount() == 0 {
		return
	}
	to <- c.took
}
