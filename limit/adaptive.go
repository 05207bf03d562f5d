package limit

import (
	"cmp"
	"math"
	"time"
)

const (
	successesToRise = 100  // successes in a row before the rate rises
	rise            = 1.10 // by which it does
	approach        = 1.01 // by which it does near a rate that was refused
	near            = 0.95 // of that rate
	failuresToFall  = 3    // refusals or failures within a window before the rate falls
	fall            = 0.75 // to this part of it

	// maxUnused is the time a learned rate is retained without use.
	maxUnused = int64(24 * time.Hour)

	// rateUnits are the units of which spacing knows the time: many, so that the nanoseconds
	// of a high rate are precise, and few enough for minRate.
	rateUnits = 1 << 12
)

// adaptive is a rate between min and max that follows the outcomes of requests. It is
// paced, without bursts. It begins at the geometric mean of min and max.
type adaptive struct {
	counter
	spacing
	min, max        float64 // per second
	window          int64
	rate            float64
	refused         float64               // a rate that was refused; 0: none known
	streak          int                   // successes in a row
	failedAt        [failuresToFall]int64 // times of the last failures, latest last; 0: none
	inFlight        int64                 // requests in flight
	inFlightOldRate int64                 // of these, requests sent at an earlier rate: their outcomes are ignored
	used            int64                 // time of the last use
}

func newAdaptive(s Spec) *adaptive {
	m := &adaptive{spacing: spacing{amount: maxAmount}, min: s.Min, max: s.Max}
	m.window = cmp.Or(int64(s.Window), int64(time.Minute))
	m.adopt(m.middle())
	return m
}

// adopt spaces units as a rate requires.
func (m *adaptive) adopt(rate float64) {
	m.rate, m.units, m.long = rate, rateUnits, nanoseconds(rateUnits/rate)
}

func (m *adaptive) middle() float64 {
	return min(max(math.Sqrt(m.min*m.max), m.min), m.max)
}

// at is the time, and drops learned values that are too old.
func (m *adaptive) at(now time.Time) int64 {
	v := m.clock.At(now)
	if m.inFlight == 0 && v-m.used >= maxUnused && m.used != 0 {
		m.adopt(m.middle())
		m.refused, m.streak, m.failedAt, m.used = 0, 0, [failuresToFall]int64{}, 0
	}
	return v
}

// Rate is the current rate in units per second.
func (m *adaptive) Rate(now time.Time) float64 {
	m.at(now)
	return m.rate
}

func (m *adaptive) Take(now time.Time, n int64) {
	m.used = m.at(now)
	m.inFlight++
	m.counter.Take(now, n)
}

func (m *adaptive) Give(now, taken time.Time, n int64) {
	m.at(now)
	m.requestEnded()
	m.counter.Give(now, taken, n)
}

// requestEnded counts one request fewer in flight, and tells whether it was sent at the
// current rate. Requests are assumed to end in the order in which they were sent.
func (m *adaptive) requestEnded() (current bool) {
	m.inFlight = max(m.inFlight-1, 0)
	if m.inFlightOldRate > 0 {
		m.inFlightOldRate--
		return false
	}
	return true
}

func (m *adaptive) Done(now, _ time.Time, _ int64, o Outcome) {
	v := m.at(now)
	m.used = v
	current := m.requestEnded()
	switch o {
	case Success:
		if current {
			m.succeeded()
		}
	case Refused, Failed:
		if current {
			m.failed(v)
		}
	case Abandoned:
	}
}

func (m *adaptive) succeeded() {
	if m.streak++; m.streak < successesToRise {
		return
	}
	m.streak = 0
	if m.rate >= m.refused {
		m.refused = 0 // the rate was accepted
	}
	step := rise
	if m.refused > 0 && m.rate*rise > m.refused*near {
		step = approach
	}
	m.adopt(min(m.rate*step, m.max))
}

func (m *adaptive) failed(v int64) {
	m.streak = 0
	copy(m.failedAt[:], m.failedAt[1:])
	m.failedAt[failuresToFall-1] = max(v, 1)
	if m.failedAt[0] == 0 || v-m.failedAt[0] >= m.window {
		return
	}
	m.failedAt = [failuresToFall]int64{}
	m.refused = m.rate
	m.adopt(max(m.rate*fall, m.min))
	m.inFlightOldRate = m.inFlight
	// The next take waits as the new rate requires, whatever is settled later.
	each, _ := m.gap(1, m.long)
	m.nextAt, m.lastLong = max(m.nextAt, plus(m.last, each)), 0
}

// left is the units of one second, if the next unit may be taken now.
func (m *adaptive) left(v int64) int64 {
	if v < m.nextAt {
		return 0
	}
	return max(int64(m.rate), 1)
}

// idle is true if a new meter would not begin at a higher rate.
func (m *adaptive) idle(v int64) bool {
	return m.inFlight == 0 && v >= m.nextAt && m.rate >= m.middle() && m.refused == 0 &&
		v-m.failedAt[failuresToFall-1] >= m.window
}

func (m *adaptive) State() []byte {
	b := newState(Adaptive, m.clock.last, &m.spent)
	b.float(m.rate)
	b.float(m.refused)
	b.int(int64(m.streak))
	b.int(max(m.nextAt-m.clock.last, 0))
	b.int(m.used)
	for _, t := range m.failedAt {
		b.int(t)
	}
	return b
}

func (m *adaptive) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(Adaptive, state)
	speed, refused := d.float(minRate, maxRate), d.float(0, maxRate)
	streak := d.between(0, successesToRise-1)
	rest, used := d.between(0, math.MaxInt64), d.time(last)
	var bad [failuresToFall]int64
	for i := range bad {
		bad[i] = d.time(last)
	}
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.streak, m.used = spent, int(streak), max(used+by, 0)
	m.adopt(min(max(speed, m.min), m.max))
	m.refused = refused
	m.last, m.nextAt = last+by, plus(last+by, rest)
	for i, t := range bad {
		m.failedAt[i] = t
		if t != 0 {
			m.failedAt[i] = max(t+by, 1)
		}
	}
	return nil
}

func (m *adaptive) replay(v int64, list []Spent) {
	if len(list) > 0 {
		m.last = v - int64(list[len(list)-1].Ago)
		each, _ := m.gap(1, m.long)
		m.nextAt, m.used = m.last+each, v
	}
}

func (m *adaptive) become(_ time.Time, to Meter, _ []Spent) Meter {
	fresh := to.(*adaptive)
	m.min, m.max, m.window = fresh.min, fresh.max, fresh.window
	m.adopt(min(max(m.rate, m.min), m.max))
	return m
}
