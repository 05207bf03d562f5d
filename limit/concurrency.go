package limit

import (
	"math"
	"time"
)

// concurrency allows a number of requests in flight. Only Done and Give free units, so When
// cannot tell a time.
type concurrency struct{ amount, inFlight int64 }

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

func (m *concurrency) Take(_ time.Time, n int64) { m.inFlight = min(m.inFlight+amount(n), maxAmount) }

func (m *concurrency) Postpone(_, _ time.Time, _ int64) {}

func (m *concurrency) Give(now, taken time.Time, n int64) { m.Done(now, taken, n, Abandoned) }

// Settle gives back only units that Done will not: a request stays in flight until it is
// done, whatever it costs.
func (m *concurrency) Settle(_, _ time.Time, estimate, actual int64) {
	if less := amount(estimate) - amount(actual); less > 0 {
		m.inFlight = max(m.inFlight-less, 0)
	}
}

func (m *concurrency) Done(_, _ time.Time, n int64, _ Outcome) {
	m.inFlight = max(m.inFlight-amount(n), 0)
}

func (m *concurrency) Left(time.Time) int64 { return max(m.amount-m.inFlight, 0) }

// State is empty: requests in flight end with the process.
func (m *concurrency) State() []byte { return newEncoder(Concurrency) }

// Restore ignores the seven numbers of versions before 3.
func (m *concurrency) Restore(_ time.Time, state []byte) error {
	d := newDecoder(Concurrency, state)
	if d.version < 3 && d.err == nil {
		last := d.time(FarFuture)
		d.spent(last)
		d.between(math.MinInt64, math.MaxInt64)
		d.between(math.MinInt64, math.MaxInt64)
	}
	return d.done()
}

func (m *concurrency) Idle(time.Time) bool { return m.inFlight == 0 }

func (m *concurrency) at(time.Time) int64 { return 0 }

func (m *concurrency) past() *history { return new(history) }

func (m *concurrency) counted(int64) (within, units int64) { return 0, 0 }

func (m *concurrency) replay(int64, []Spent) {}

func (m *concurrency) become(_ time.Time, to Meter, _ []Spent) Meter {
	m.amount = to.(*concurrency).amount
	return m
}
