package limit

import (
	"math"
	"time"
)

// concurrency is at most a number in flight. Only Done and Give make room, so
// When cannot say when.
type concurrency struct{ amount, flying int64 }

func newConcurrency(s Spec) *concurrency { return &concurrency{amount: s.Amount} }

func (m *concurrency) When(now time.Time, n int64) (time.Time, bool) {
	switch {
	case n <= 0:
		return now, true
	case n > m.amount:
		return now, false
	case n > m.Left(now):
		return Unknown, true
	}
	return now, true
}

func (m *concurrency) Take(_ time.Time, n int64) { m.flying = min(m.flying+amount(n), most) }

func (m *concurrency) Postpone(_, _ time.Time, _ int64) {}

func (m *concurrency) Give(now, taken time.Time, n int64) { m.Done(now, taken, n, Abandoned) }

// Settle only gives back what Done will not: whatever else a request costs, it is
// in flight until it is done.
func (m *concurrency) Settle(_, _ time.Time, estimate, actual int64) {
	if less := amount(estimate) - amount(actual); less > 0 {
		m.flying = max(m.flying-less, 0)
	}
}

func (m *concurrency) Done(_, _ time.Time, n int64, _ Outcome) {
	m.flying = max(m.flying-amount(n), 0)
}

func (m *concurrency) Left(time.Time) int64 { return max(m.amount-m.flying, 0) }

// State has nothing in it: requests in flight end with the process.
func (m *concurrency) State() []byte { return newEncoder(Concurrency) }

// Restore reads seven numbers of versions before 3, which say nothing.
func (m *concurrency) Restore(_ time.Time, state []byte) error {
	d := newDecoder(Concurrency, state)
	if d.version < 3 && d.err == nil {
		last := d.time(edge)
		d.spent(last)
		d.between(math.MinInt64, math.MaxInt64)
		d.between(math.MinInt64, math.MaxInt64)
	}
	return d.done()
}

func (m *concurrency) Idle(time.Time) bool { return m.flying == 0 }
