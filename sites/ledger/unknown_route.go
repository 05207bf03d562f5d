package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// probeTimeout is the time after which another request goes, although a probe has no answer.
	probeTimeout = 15 * second
	// firstProbeTimeout is the same for the first request of a route, so that a slow site
	// does not block all others. After each timeout as many more may go as are in flight.
	firstProbeTimeout = 5 * second
)

// unsaved has the methods of limit.Meter for a meter that counts requests and has no state to
// save.
type unsaved struct{}

func (unsaved) Settle(_, _ time.Time, _, _ int64)   {}
func (unsaved) State() []byte                       { return nil }
func (unsaved) Restore(_ time.Time, _ []byte) error { return nil }

// UnknownRoute is a meter that lets one request of a route go alone while its limits are
// unknown. Requests sent after an answer use the learned limits instead of it; each answer
// allows one more request in flight. It is not safe for concurrent use.
type UnknownRoute struct {
	unsaved
	clock         limit.Clock
	maxInFlight   int64
	inFlight      int64
	inFlightSince int64 // since when some are in flight
}

var _ limit.Meter = (*UnknownRoute)(nil)

// NewUnknownRoute makes an UnknownRoute with no request in flight.
func NewUnknownRoute() *UnknownRoute { return &UnknownRoute{maxInFlight: 1} }

func (m *UnknownRoute) When(now time.Time, n int64) (time.Time, bool) {
	v := m.clock.At(now)
	if n <= 0 || m.inFlight < m.allowed(v) {
		return now, true
	}
	return limit.Unknown, true
}

// Ahead implements queue.Copying.
func (m *UnknownRoute) Ahead(now time.Time) limit.Meter {
	c := *m
	c.clock.At(now)
	c.inFlight = 0
	return &c
}

// Unknown implements queue.Unknowing: no limit is known whatever delays a request.
func (m *UnknownRoute) Unknown(now time.Time, n int64) bool {
	at, ok := m.When(now, n)
	return ok && at.After(now)
}

// allowed returns the number of requests that may be in flight: more the longer no answer arrives.
func (m *UnknownRoute) allowed(v int64) int64 {
	if m.inFlight == 0 {
		return m.maxInFlight
	}
	return min(m.maxInFlight<<min(max(v-m.inFlightSince, 0)/firstProbeTimeout, 20), maxAmount)
}

// Patience implements queue.Impatient.
func (m *UnknownRoute) Patience(now time.Time) time.Time {
	v := m.clock.At(now)
	if m.inFlight == 0 {
		return time.Time{}
	}
	return m.clock.Time(now, m.inFlightSince+(max(v-m.inFlightSince, 0)/firstProbeTimeout+1)*firstProbeTimeout)
}

// Take implements limit.Meter. It counts requests, whatever they cost.
func (m *UnknownRoute) Take(now time.Time, n int64) {
	v := m.clock.At(now)
	if n <= 0 {
		return
	}
	if m.inFlight == 0 {
		m.inFlightSince = v
	}
	m.inFlight = min(m.inFlight+1, maxAmount)
}

func (m *UnknownRoute) Give(now, _ time.Time, n int64) {
	m.clock.At(now)
	if n > 0 {
		m.inFlight = max(m.inFlight-1, 0)
	}
}

func (m *UnknownRoute) Done(now, _ time.Time, n int64, o limit.Outcome) {
	m.clock.At(now)
	if n <= 0 {
		return
	}
	m.inFlight = max(m.inFlight-1, 0)
	if o == limit.Success || o == limit.Refused {
		m.maxInFlight, m.inFlightSince = min(m.maxInFlight+1, 1<<32), m.clock.Last()
	}
}

func (m *UnknownRoute) Postpone(now, _ time.Time, n int64) {
	if v := m.clock.At(now); n > 0 && m.inFlight == 1 {
		m.inFlightSince = v
	}
}

func (m *UnknownRoute) Left(now time.Time) int64 {
	v := m.clock.At(now)
	return max(m.allowed(v)-m.inFlight, 0)
}

// Idle implements limit.Meter. The number of requests in flight that answers have allowed
// counts for a moment only, because an answered route uses its own limits.
func (m *UnknownRoute) Idle(now time.Time) bool {
	v := m.clock.At(now)
	return m.inFlight == 0 && (m.maxInFlight == 1 || v-m.inFlightSince >= firstProbeTimeout)
}
