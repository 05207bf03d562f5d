package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// metering is a meter and what was taken from it.
type metering struct {
	meter    limit.Meter        // nil: only a cooldown
	inFlight int64              // taken by what is not finished
	changed  time.Time          // when the meter last replaced another
	fresh    func() limit.Meter // makes an unused meter like it; nil: waits are not estimated beyond what the meter says
	owed     int64              // of what is in flight, what is older than the meter and more than it could hold
	pace     pace
}

// pace is how fast a resource lets units pass when it is never idle.
type pace struct {
	known bool
	whole int64         // the most that can be taken together
	each  time.Duration // for one unit; 0 is not known, as for what is in flight
}

// measure finds the pace of the meter by using up a fresh one, so that it holds
// for every arithmetic.
func (m *metering) measure(now time.Time) pace {
	if m.pace.known || m.fresh == nil {
		return m.pace
	}
	m.pace = paceOf(now, m.fresh())
	return m.pace
}

func paceOf(now time.Time, m limit.Meter) pace {
	p := pace{known: true}
	fits := func(n int64) bool {
		_, ok := m.When(now, n)
		return ok
	}
	low, high := int64(0), int64(1)
	for fits(high) && high < 1<<50 {
		low, high = high, 2*high
	}
	for low+1 < high {
		if mid := low + (high-low)/2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	p.whole = low
	// The second round is a whole one, also when windows follow the clock.
	at := now
	for range 2 {
		start, ok := m.When(at, low)
		if low == 0 || !ok || start.Sub(at) > far {
			return p
		}
		at = start
		m.Take(at, low)
		if end, ok := m.When(at, low); !ok || end.Sub(at) > far {
			return p // nobody knows when, as for what is in flight
		}
		m.Done(at, at, low, limit.Success)
	}
	if end, ok := m.When(at, low); ok && end.Sub(at) < far {
		p.each = end.Sub(at) / time.Duration(low)
	}
	return p
}

// within is an amount, or the most that the meter can have.
func (m *metering) within(now time.Time, n int64) int64 {
	if _, ok := m.meter.When(now, n); ok {
		return n
	}
	return min(n, max(m.measure(now).whole, 1))
}

// knows tells whether the meter has what was taken at a time.
func (m *metering) knows(at time.Time) bool {
	return m.meter != nil && (m.changed.IsZero() || at.After(m.changed))
}

// takenBefore tells whether a grant at a time took from the meter before this one.
func (m *metering) takenBefore(at time.Time) bool { return !m.changed.IsZero() && !at.After(m.changed) }

// countsInFlight tells whether the meter counts what is in flight, which is given back
// when it is done and not with time.
func (m *metering) countsInFlight(now time.Time) bool {
	p := m.measure(now)
	return p.known && p.whole > 0 && p.each == 0
}

// far is later than any wait: an answer beyond it means "when something
// happens", as for a limit on what is in flight.
const far = 5 * 365 * 24 * time.Hour
