package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// Asks tells whether n units cannot be taken only because the store has not answered
// yet: nobody knows whether they are there. It is queue.Asking's.
func (m *shared) Asks(now time.Time, n int64) bool {
	at := m.a.clock.at(now)
	switch {
	case n <= 0, n > m.amount, m.room(at)+m.lendable(at) >= n:
		return false
	case m.gap(at), m.dry(at), m.broken:
		return false
	case m.a.settled > at.low:
		return true // others have not said yet what they hold
	case m.a.away, m.kind == store.Rolling && m.poll > at.low:
		return false
	}
	reserved, _ := m.coming(at)
	return reserved == 0 || m.flying || 2*reserved < m.waiting
}

// Asks tells whether n units, which the meter inside has, wait for the journal.
func (m *kept) Asks(now time.Time, n int64) bool {
	if n <= 0 || n <= m.ahead {
		return false
	}
	if m.joint == nil || !m.joint.on {
		t, ok := m.Meter.When(now, n)
		return ok && !t.After(now)
	}
	if m.whole == 0 {
		m.whole = largest(now, m.Meter)
	}
	if n > m.whole || m.a.failing(m.a.clock.at(now)) {
		return false
	}
	t, ok := m.Meter.When(now, min(n+m.joint.others, m.whole))
	return ok && !t.After(now)
}
