package metrics

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreState is how what keeps budgets is, now.
type StoreState struct {
	Up      bool // it answered when it was asked last
	Members int  // instances that use it, this one included
	// Utilisation is the part of what was granted to this instance that it has used,
	// 0 to 1. What is negative is not known.
	Utilisation float64
	// Clock is by how much its clock is ahead of this machine's; nil: nobody knows.
	Clock *time.Duration
	// Damaged are how often something damaged was set aside: the state file, and rows of it.
	Damaged map[string]int
}

// Store names who knows how what keeps budgets is. Without one there is no series of
// it.
func (m *Metrics) Store(now func() StoreState) {
	m.store.now.Store(&now)
	// What nobody has seen at 0 has not increased when it is 1.
	m.store.outages.more(pair{}, 0)
	m.store.losses.more(pair{"all", ""}, 0)
	m.store.losses.more(pair{"site", ""}, 0)
}

// StoreOperation counts an operation on what keeps budgets, such as "exchange", and
// how long it took. Operations are words of our own.
func (m *Metrics) StoreOperation(op string, ok bool, took time.Duration) {
	result := "failed"
	if ok {
		result = "ok"
	}
	m.store.operations.inc(pair{op, result})
	m.store.took.observe(took)
}

// StoreLent counts units that were taken while the store was away, by the rule for that:
// "share" or "open".
func (m *Metrics) StoreLent(outage string, units int64) {
	m.store.lent.more(pair{outage, ""}, float64(units))
}

// StoreLost counts a loss of the store's: of "all" budgets, or of those of one "site".
func (m *Metrics) StoreLost(what string) { m.store.losses.inc(pair{what, ""}) }

// StoreAway counts an outage of the store's that begins.
func (m *Metrics) StoreAway() { m.store.outages.inc(pair{}) }

// Permits names who knows how many permits of crawlers that use no proxy are open.
func (m *Metrics) Permits(open func() int) { m.store.permits.Store(&open) }

// storeCollector is what is told of the store when the metrics are read.
type storeCollector struct {
	operations *counters
	lent       *counters
	losses     *counters
	outages    *counters
	took       histogram
	now        atomic.Pointer[func() StoreState]
	permits    atomic.Pointer[func() int]
}

func newStore() *storeCollector {
	return &storeCollector{
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
	storeTookDesc    = desc("store_duration_seconds", "How long operations on what keeps budgets took.")
	storeUpDesc      = desc("store_up", "1 when what keeps budgets answered the last time; 0: limits go by their outage rule.")
	storeMembersDesc = desc("store_members", "Instances that keep budgets together, this one included.")
	utilisationDesc  = desc("lease_utilisation_ratio", "The part of what the store has granted to this instance that was used.")
	storeClockDesc   = desc("store_clock_seconds", "By how much the clock of what keeps budgets is ahead of this machine's.")
	damagedDesc      = desc("state_damaged", "What was set aside of the state file since the process began, because it was damaged.", "what")
	permitsDesc      = desc("permits_open", "Permits of crawlers that use no proxy, granted and neither settled nor expired.")
)

func (c *storeCollector) Describe(to chan<- *prometheus.Desc) {
	c.operations.vec.Describe(to)
	c.lent.vec.Describe(to)
	c.losses.vec.Describe(to)
	c.outages.vec.Describe(to)
	for _, one := range []*prometheus.Desc{storeTookDesc, storeUpDesc, storeMembersDesc, utilisationDesc, storeClockDesc, permitsDesc, damagedDesc} {
		to <- one
	}
}

func (c *storeCollector) Collect(to chan<- prometheus.Metric) {
	c.operations.vec.Collect(to)
	c.lent.vec.Collect(to)
	c.losses.vec.Collect(to)
	c.outages.vec.Collect(to)
	if open := c.permits.Load(); open != nil {
		to <- gaugeOf(permitsDesc, float64((*open)()))
	}
	h := c.took.read()
	if now := c.now.Load(); now != nil {
		is, up := (*now)(), 0.0
		if is.Up {
			up = 1
		}
		to <- gaugeOf(storeUpDesc, up)
		to <- gaugeOf(storeMembersDesc, float64(is.Members))
		if is.Clock != nil {
			to <- gaugeOf(storeClockDesc, is.Clock.Seconds())
		}
		for what, n := range is.Damaged {
			to <- gaugeOf(damagedDesc, float64(n), what)
		}
		if is.Utilisation >= 0 && !math.IsInf(is.Utilisation, 0) { // not NaN either
			to <- gaugeOf(utilisationDesc, min(is.Utilisation, 1))
		}
	} else if *h.SampleCount == 0 {
		return
	}
	to <- &reading{storeTookDesc, nil, h}
}
