package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// patience is how long one that goes alone is waited for.
	patience = 15 * second
	// eager is the same for the first of a route: a site that takes long to answer
	// would keep all the others. Each time as many may follow as were let go before.
	eager = 5 * second
)

// First is a meter that lets one request go alone. Whoever knows from its answer what
// a route is under asks no First any more; each answer makes room for one more to go
// with the others.
type First struct {
	clock  clock
	room   int64 // how many may be in flight
	flying int64
	began  int64 // since when some are in flight
}

var _ limit.Meter = (*First)(nil)

// NewFirst is a First that has let nothing go.
func NewFirst() *First { return &First{room: 1} }

// When is limit.Meter's.
func (m *First) When(now time.Time, n int64) (time.Time, bool) {
	v := m.clock.at(now)
	if n <= 0 || m.flying < m.allowed(v) {
		return now, true
	}
	return limit.Unknown, true
}

// Unknown is queue.Unknowing's: whatever it keeps, nobody knows a limit.
func (m *First) Unknown(now time.Time, n int64) bool {
	at, ok := m.When(now, n)
	return ok && at.After(now)
}

// allowed is how many may be in flight: more the longer nobody is answered.
func (m *First) allowed(v int64) int64 {
	if m.flying == 0 {
		return m.room
	}
	return min(m.room<<min(max(v-m.began, 0)/eager, 20), most)
}

// Patience is queue.Impatient's.
func (m *First) Patience(now time.Time) time.Time {
	v := m.clock.at(now)
	if m.flying == 0 {
		return time.Time{}
	}
	return m.clock.time(now, m.began+(max(v-m.began, 0)/eager+1)*eager)
}

// Take is limit.Meter's. What a request takes does not matter: they are counted.
func (m *First) Take(now time.Time, n int64) {
	v := m.clock.at(now)
	if n <= 0 {
		return
	}
	if m.flying == 0 {
		m.began = v
	}
	m.flying = min(m.flying+1, most)
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
		m.room, m.began = min(m.room+1, 1<<32), m.clock.last
	}
}

// Postpone is limit.Meter's.
func (m *First) Postpone(now, _ time.Time, n int64) {
	if v := m.clock.at(now); n > 0 && m.flying == 1 {
		m.began = v
	}
}

// Settle is limit.Meter's, and does nothing.
func (m *First) Settle(_, _ time.Time, _, _ int64) {}

// Left is limit.Meter's.
func (m *First) Left(now time.Time) int64 {
	v := m.clock.at(now)
	return max(m.allowed(v)-m.flying, 0)
}

// State is limit.Meter's. Nothing of it outlives the process.
func (m *First) State() []byte { return nil }

// Restore is limit.Meter's.
func (m *First) Restore(time.Time, []byte) error { return nil }

// Idle is limit.Meter's. The room that answers have made is kept a moment only: a route
// that has answered is asked for by its own limits.
func (m *First) Idle(now time.Time) bool {
	v := m.clock.at(now)
	return m.flying == 0 && (m.room == 1 || v-m.began >= eager)
}
