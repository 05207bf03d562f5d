package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/abide-proxy/abide/status"
)

var (
	storeUpDesc       = desc("store_up", "1 when what keeps budgets answered the last time; 0: limits go by their outage rule.")
	storeMembersDesc  = desc("store_members", "Instances that keep budgets together, this one included.")
	utilisationDesc   = desc("lease_utilisation_ratio", "The part of what the store has granted to this instance that was used.")
	storeClockDesc    = desc("store_clock_seconds", "By how much the clock of what keeps budgets is ahead of this machine's.")
	storeWarningsDesc = desc("store_warnings", "Settings of what keeps budgets that are to be changed, such as a maxmemory-policy that evicts.")
	damagedDesc       = desc("state_damaged", "What was set aside of the state file since the process began, because it was damaged.", "what")
	permitsDesc       = desc("permits_open", "Permits of crawlers that use no proxy, granted and neither settled nor expired.")
)

func (m *Metrics) collectStore(now status.Store, to chan<- prometheus.Metric) {
	up := 0.0
	if !now.Fails() {
		up = 1
	}
	to <- gaugeOf(storeUpDesc, up)
	to <- gaugeOf(storeMembersDesc, float64(max(now.Count, 1)))
	to <- gaugeOf(storeWarningsDesc, float64(len(now.Warnings)))
	if now.Clock != nil {
		to <- gaugeOf(storeClockDesc, now.Clock.Seconds())
	}
	if now.Damage != nil {
		to <- gaugeOf(damagedDesc, float64(now.Damage.Files), "file")
		to <- gaugeOf(damagedDesc, float64(now.Damage.Rows), "row")
	}
	if now.Granted > 0 {
		to <- gaugeOf(utilisationDesc, min(float64(now.Spent)/float64(now.Granted), 1))
	}
	to <- m.storeTook
}

// Store sets the function that returns the store's state. Without it the store has no
// series.
func (m *Metrics) Store(now func() status.Store) {
	m.store.Ask(now)
	// A series must exist at 0 before it can be seen to increase.
	m.storeOutages.begin(pair{})
	m.storeLosses.begin(pair{"all", ""}, pair{"site", ""})
}

// StoreOperation counts an operation of the store, such as "exchange", and its duration.
// Operations are fixed words.
func (m *Metrics) StoreOperation(op string, ok bool, took time.Duration) {
	m.storeOperations.inc(pair{op, result(ok)})
	observe(m.storeTook, took)
}

// StoreLent counts units taken while the store was away, by the outage rule: "share" or
// "open".
func (m *Metrics) StoreLent(outage string, units int64) {
	m.storeLent.more(pair{outage, ""}, uint64(max(units, 0)))
}

// StoreLost counts a loss of data of the store: of "all" budgets, or those of one "site".
func (m *Metrics) StoreLost(what string) { m.storeLosses.inc(pair{what, ""}) }

// StoreAway counts the start of an outage of the store.
func (m *Metrics) StoreAway() { m.storeOutages.inc(pair{}) }
