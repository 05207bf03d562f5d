package ledger

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// slowStartStep is the number of successes that allow one more request in flight, at most.
	// So the number in flight grows exponentially with time, and few requests are refused when
	// it meets a limit that nobody announces.
	slowStartStep = 16
	// slowStartTime is about the time until 2.7 times as many may be in flight at a server that
	// answers slowly: then fewer successes are needed.
	slowStartTime = second
	// slowStartTimeout is the time without an answer after which twice as many requests may be
	// in flight, and slowStartLate times the mean time of an answer is the same where that is known.
	slowStartTimeout = second
	slowStartLate    = 2
	// SlowStartSuccesses is the number of successes that end a slow start.
	SlowStartSuccesses = 16 * 64
	// unknownRouteTimeout is the same as slowStartTimeout for the first request of a route.
	unknownRouteTimeout = 5 * second
	// probeTimeout is the time after which another request goes, although a probe has no answer.
	probeTimeout = 15 * second
)

// SlowStart is a meter of requests in flight where no limit is known yet: at a server that
// has answered few requests and announces no limits, or on a route of which nothing has been
// answered. It starts with one, and allows more as requests succeed. It is not safe for
// concurrent use.
type SlowStart struct {
	clock     limit.Clock
	step      int64 // successes that allow one more, at most
	timeout   int64 // without an answer, after which twice as many may be in flight, at least
	successes int64
	latency   int64 // mean
	inFlight  int64
	least     int64 // in flight, because answers have not come in time
	latest    int64 // last request or answer
}

var _ limit.Meter = (*SlowStart)(nil)

// NewSlowStart returns a meter for a server that has answered some requests with success.
func NewSlowStart(successes int64) *SlowStart {
	return &SlowStart{step: slowStartStep, timeout: slowStartTimeout, successes: min(successes, SlowStartSuccesses)}
}

// NewUnknownRoute returns a meter that lets one request of a route go alone while its limits are
// unknown. Requests that are sent after an answer use the learned limits instead.
func NewUnknownRoute() *SlowStart { return &SlowStart{step: 1, timeout: unknownRouteTimeout} }

// allowed returns the number of requests that may be in flight.
func (m *SlowStart) allowed(v int64) int64 {
	step := m.step
	if m.latency > 0 {
		step = min(max(slowStartTime/m.latency, 1), step)
	}
	allowed := max(1+m.successes/step, m.least)
	if m.inFlight >= allowed && v-m.latest >= m.silence() {
		return 2 * m.inFlight
	}
	return allowed
}

// silence returns the time without an answer after which more requests may go.
func (m *SlowStart) silence() int64 { return max(m.timeout, slowStartLate*m.latency) }

func (m *SlowStart) When(now time.Time, n int64) (time.Time, bool) {
	v := m.clock.At(now)
	if n <= 0 || m.successes >= SlowStartSuccesses || m.inFlight < m.allowed(v) {
		return now, true
	}
	return limit.Unknown, true
}

// Ahead implements queue.Learning.
func (m *SlowStart) Ahead(now time.Time) limit.Meter {
	c := *m
	c.clock.At(now)
	c.inFlight = 0
	return &c
}

// Unknown implements queue.Unknowing: no limit is known whatever delays a request.
func (m *SlowStart) Unknown(now time.Time, n int64) bool {
	at, ok := m.When(now, n)
	return ok && at.After(now)
}

// Patience implements queue.Learning.
func (m *SlowStart) Patience(now time.Time) time.Time {
	v := m.clock.At(now)
	if m.inFlight == 0 {
		return time.Time{}
	}
	return m.clock.Time(now, max(m.latest+m.silence(), v))
}

// Take implements limit.Meter. It counts requests, whatever they cost.
func (m *SlowStart) Take(now time.Time, n int64) {
	if v := m.clock.At(now); n > 0 {
		m.least = min(max(m.least, m.allowed(v)), SlowStartSuccesses)
		m.inFlight, m.latest = min(m.inFlight+1, maxAmount), v
	}
}

func (m *SlowStart) Give(now, _ time.Time, n int64) {
	m.clock.At(now)
	if n > 0 {
		m.inFlight = max(m.inFlight-1, 0)
	}
}

func (m *SlowStart) Done(now, taken time.Time, n int64, o limit.Outcome) {
	v := m.clock.At(now)
	if n <= 0 {
		return
	}
	m.inFlight, m.latest = max(m.inFlight-1, 0), v
	if o != limit.Success {
		return
	}
	m.successes = min(m.successes+1, SlowStartSuccesses)
	took := max(v-m.clock.On(taken), 1)
	m.latency = cmp.Or(m.latency, took)
	m.latency += (took - m.latency) / 8
}

// Postpone does nothing: a request counts until it is done.
func (m *SlowStart) Postpone(_, _ time.Time, _ int64) {}

// Settle does nothing: requests count, whatever they cost.
func (m *SlowStart) Settle(_, _ time.Time, _, _ int64) {}

// State implements limit.Meter. Nothing is saved.
func (m *SlowStart) State() []byte { return nil }

func (m *SlowStart) Restore(_ time.Time, _ []byte) error { return nil }

func (m *SlowStart) Left(now time.Time) int64 {
	v := m.clock.At(now)
	if m.successes >= SlowStartSuccesses {
		return maxAmount
	}
	return max(m.allowed(v)-m.inFlight, 0)
}

func (m *SlowStart) Idle(now time.Time) bool {
	m.clock.At(now)
	return m.inFlight == 0
}
