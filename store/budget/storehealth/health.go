// Package storehealth follows how a store of budgets answers: its outages, the budgets that it
// has lost, the units that were lent while it was away, its clock and its settings. It
// keeps the lines in the log few, whatever the store does.
package storehealth

import (
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/status"
)

// Metrics counts what happens to a store.
type Metrics interface {
	// StoreOperation counts an operation, such as "exchange", and how long it took.
	StoreOperation(op string, ok bool, took time.Duration)
	// StoreLent counts units that were taken while the store was away, by outage rule.
	StoreLent(outage string, units int64)
	// StoreLost counts a loss: of "all" budgets, or of those of one "site".
	StoreLost(what string)
	// StoreAway counts an outage that begins.
	StoreAway()
}

// Health is how one store answers. It is safe for concurrent use.
type Health struct {
	outages
	losses
	loans
	clock
	settings

	metrics Metrics
}

// New is the health of a store that has not been asked yet. Shared says that several
// instances use the store: otherwise it is the state file of this machine.
func New(shared bool, m Metrics, log *logrus.Logger) *Health {
	return &Health{
		outages:  newOutages(shared, m.StoreAway, log),
		losses:   losses{measure: m.StoreLost, log: log},
		loans:    loans{measure: m.StoreLent, log: log},
		clock:    clock{log: log, step: rate.Sometimes{Interval: lineEvery}, behind: rate.Sometimes{Interval: lineEvery}},
		settings: settings{log: log},
		metrics:  m,
	}
}

// Operation notes how an operation of the store went.
func (h *Health) Operation(op string, err error, took time.Duration) {
	h.Measure(op, err, took)
	h.Answered(err, took)
}

// Measure counts an operation that says nothing about whether the store is away.
func (h *Health) Measure(op string, err error, took time.Duration) {
	h.metrics.StoreOperation(op, err == nil, took)
}

// Report writes to the log what was held back to keep its lines few.
func (h *Health) Report() {
	h.loans.report()
	h.outages.report()
	h.losses.report()
}

// Fill sets the fields of a status that follow from the answers of the store.
func (h *Health) Fill(s *status.Store) {
	s.Clock = h.ahead.Load()
	s.Loss = h.now(time.Now())
	s.Warnings = h.warnings()
	h.outages.fill(s)
}
