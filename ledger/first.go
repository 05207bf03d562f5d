package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// patience is how long one that goes alone is waited for.
const patience = 15 * second

// First is a meter that lets one request go alone, until it is opened. Each
// answer that does not open it lets one more go with the others.
type First struct {
	clock  clock
	open   bool
	room   int64 // how many may be in flight
	flying int64
	last   int64 // when the latest was let go
}

var _ limit.Meter = (*First)(nil)

// NewFirst is a First that is not open.
func NewFirst() *First { return &First{room: 1} }

// Open lets all go.
func (m *First) Open() { m.open = true }

// When is limit.Meter's.
func (m *First) When(now time.Time, n int64) (time.Time, bool) {
	v := m.clock.at(now)
	if m.open || n <= 0 || m.flying < m.room || v-m.last >= patience {
		return now, true
	}
	return limit.Unknown, true
}

// Take is limit.Meter's. What a request takes does not matter: they are counted.
func (m *First) Take(now time.Time, n int64) {
	v := m.clock.at(now)
	if n > 0 {
		m.flying, m.last = min(m.flying+1, most), v
	}
}

// Give is limit.Meter's.
func (m *First) Give(now, _ time.Time, n int64) {
	m.clock.at(now)
	if n > 0 {
		m.flying = max(m.flying-1, 0)
	}
}

// Done is limit.Meter's.
func (m *First) Done(now, _ time.Time, n int64, o limit.Outcome) {
	m.clock.at(now)
	if n <= 0 {
		return
	}
	m.flying = max(m.flying-1, 0)
	if o == limit.Success || o == limit.Refused {
		m.room = min(m.room+1, most)
	}
}

// Postpone is limit.Meter's.
func (m *First) Postpone(now, _ time.Time, n int64) {
	if v := m.clock.at(now); n > 0 {
		m.last = v
	}
}

// Settle is limit.Meter's, and does nothing.
func (m *First) Settle(_, _ time.Time, _, _ int64) {}

// Observe is limit.Meter's, and does nothing.
func (m *First) Observe(time.Time, limit.Observation) {}

// Left is limit.Meter's.
func (m *First) Left(now time.Time) int64 {
	v := m.clock.at(now)
	switch {
	case m.open:
		return most
	case m.flying >= m.room && v-m.last >= patience:
		return 1
	}
	return max(m.room-m.flying, 0)
}

// State is limit.Meter's. Nothing of it outlives the process.
func (m *First) State() []byte { return nil }

// Restore is limit.Meter's.
func (m *First) Restore(time.Time, []byte) error { return nil }

// Idle is limit.Meter's.
func (m *First) Idle(time.Time) bool { return m.flying == 0 && (!m.open && m.room == 1) }
