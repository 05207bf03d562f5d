package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// Asks tells whether n units cannot be taken only because the store's answer is pending. It
// implements queue.Asking.
func (m *shared) Asks(now time.Time, n int64) bool {
	at := m.a.clock.at(now)
	switch {
	case n <= 0, n > m.amount, m.available(at)+m.lendable(at) >= n:
		return false
	case m.betweenWindows(at), m.storeEmpty(at), m.unreadable:
		return false
	case m.a.noWantsBefore > at.low:
		return true // others have not stated their leases yet
	case m.a.away, m.kind == store.Rolling && m.pollAt > at.low:
		return false
	}
	reserved, _ := m.reservedLater(at)
	return reserved == 0 || m.inFlight || 2*reserved < m.waiting
}

// Asks tells whether n units, which the inner meter has, wait for the journal.
func (m *durable) Asks(now time.Time, n int64) bool {
	if n <= 0 || n <= m.ahead {
		return false
	}
	if m.joint == nil || !m.joint.othersUse {
		t, ok := m.Meter.When(now, n)
		return ok && !t.After(now)
	}
	if m.maxTake == 0 {
		m.maxTake = largestTake(now, m.Meter)
	}
	if n > m.maxTake || m.a.failing(m.a.clock.at(now)) {
		return false
	}
	t, ok := m.Meter.When(now, min(n+m.joint.others, m.maxTake))
	return ok && !t.After(now)
}
