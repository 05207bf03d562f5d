package limit

import "time"

// concurrency is at most a number in flight. Only Done and Give make room, so
// When cannot say when.
type concurrency struct {
	clock  steady
	told   told
	amount int64
	flying int64
	cap    int64 // what the server announced as its limit, until capped
	capped int64
}

// announced is how long a smaller limit is kept that a server announced without
// saying until when.
const announced = int64(15 * time.Minute)

func newConcurrency(s Spec) *concurrency { return &concurrency{amount: s.Amount} }

func (m *concurrency) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.amount {
		return now, false
	}
	v := m.clock.at(now)
	if n > m.room(v) {
		// A limit that was announced may end before anybody is done.
		if v < m.capped && n <= m.amount-m.flying {
			return later(now, max(m.capped, m.told.until)-v), true
		}
		return Unknown, true
	}
	return later(now, m.told.when(v, n)-v), true
}

func (m *concurrency) room(v int64) int64 {
	limit := m.amount
	if v < m.capped {
		limit = min(limit, m.cap)
	}
	return max(limit-m.flying, 0)
}

func (m *concurrency) Take(now time.Time, n int64) {
	m.clock.at(now)
	m.flying = min(m.flying+amount(n), most)
}

func (m *concurrency) Postpone(_, _ time.Time, _ int64) {}

func (m *concurrency) Give(now, taken time.Time, n int64) { m.Done(now, taken, n, Abandoned) }

// Settle only gives back what Done will not: whatever else a request costs, it is
// in flight until it is done.
func (m *concurrency) Settle(_, _ time.Time, estimate, actual int64) {
	if less := amount(estimate) - amount(actual); less > 0 {
		m.flying = max(m.flying-less, 0)
	}
}

func (m *concurrency) Done(now, _ time.Time, n int64, _ Outcome) {
	m.clock.at(now)
	m.flying = max(m.flying-amount(n), 0)
}

// Observe takes a smaller limit over, and leaves the remainder alone: it says how
// many more were in flight a moment ago.
func (m *concurrency) Observe(now time.Time, o Observation) {
	v := m.clock.at(now)
	m.told.hear(v, Observation{Limit: -1, Remaining: -1, RetryAt: o.RetryAt}, m.clock.ahead)
	if o.Limit < 1 {
		return
	}
	until := v + announced
	if !o.Reset.IsZero() {
		until = min(max(m.clock.ahead(o.Reset), v), v+credible)
	}
	if v < m.capped {
		m.cap, m.capped = min(m.cap, o.Limit), max(m.capped, until)
		return
	}
	m.cap, m.capped = min(o.Limit, most), until
}

func (m *concurrency) Left(now time.Time) int64 {
	v := m.clock.at(now)
	return m.told.remaining(v, m.room(v))
}

func (m *concurrency) State() []byte {
	b := newEncoder(Concurrency)
	b.int(m.clock.last)
	m.told.append(&b)
	b.int(m.cap)
	b.int(m.capped)
	return b
}

func (m *concurrency) Restore(now time.Time, state []byte) error {
	d := newDecoder(Concurrency, state)
	last := d.time(edge)
	var heard told
	heard.read(d, last)
	limit, until := d.between(0, most), d.time(last+credible)
	if (until == 0) != (limit == 0) {
		d.fail()
	}
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	heard.shift(by)
	if m.told, m.cap, m.capped = heard, limit, until; until > 0 {
		m.capped = max(until+by, 1)
	}
	return nil
}

func (m *concurrency) Idle(now time.Time) bool {
	v := m.clock.at(now)
	return m.flying == 0 && v >= m.capped && m.told.idle(v)
}
