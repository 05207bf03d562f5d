package limit

import (
	"math"
	"time"
)

const (
	streakToRise = 100  // successes in a row before the rate rises
	rise         = 1.10 // by which it does
	approach     = 1.01 // by which it does near a rate that was refused
	near         = 0.95 // of that rate
	badToFall    = 3    // refusals or failures within a window before the rate falls
	fall         = 0.75 // to this part of it

	// outdated is how long what was learned is kept without any use.
	outdated = int64(24 * time.Hour)
)

// adaptive is a rate between min and max that follows how requests end. It paces:
// there are no bursts. It begins in the geometric middle, as far from the one as
// from the other.
type adaptive struct {
	clock    steady
	spent    past
	min, max float64 // per second
	window   int64
	rate     float64
	refused  float64          // a rate that was too much; 0: none known
	streak   int              // successes in a row
	bad      [badToFall]int64 // when it went wrong, the latest last; 0: did not
	flying   int64            // requests in flight
	stale    int64            // of them, those sent at a rate that was left since: they teach nothing
	last     int64            // when something was taken last
	free     int64            // when the next may go
	pace     float64          // the rate at the last take
	used     int64            // when it was last used
}

func newAdaptive(s Spec) *adaptive {
	m := &adaptive{min: s.Min, max: s.Max, window: int64(s.Window)}
	if m.window == 0 {
		m.window = int64(time.Minute)
	}
	m.rate = m.middle()
	return m
}

func (m *adaptive) middle() float64 {
	return min(max(math.Sqrt(m.min*m.max), m.min), m.max)
}

// at is the time, and forgets what is too old to be true.
func (m *adaptive) at(now time.Time) int64 {
	v := m.clock.at(now)
	if m.flying == 0 && v-m.used >= outdated && m.used != 0 {
		m.rate, m.refused, m.streak, m.bad = m.middle(), 0, 0, [badToFall]int64{}
		m.used = 0
	}
	return v
}

func (m *adaptive) gap(n int64) int64 { return nanoseconds(float64(n) / m.rate) }

// Rate is the rate of now, in units per second.
func (m *adaptive) Rate(now time.Time) float64 {
	m.at(now)
	return m.rate
}

func (m *adaptive) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > most {
		return now, false
	}
	v := m.at(now)
	return later(now, max(v, m.free)-v), true
}

func (m *adaptive) Take(now time.Time, n int64) {
	v := m.at(now)
	m.flying++
	m.used = v
	if n = amount(n); n == 0 {
		return
	}
	m.last, m.free, m.pace = v, plus(max(m.free, v), m.gap(n)), m.rate
	m.spent.add(v, n)
}

func (m *adaptive) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *adaptive) Give(now, taken time.Time, n int64) {
	m.at(now)
	m.landed()
	at, known := m.clock.past(taken)
	if n = amount(n); !known || n == 0 {
		return
	}
	m.spent.back(at, n)
	m.back(at, n)
}

func (m *adaptive) back(at, n int64) {
	if at >= m.last && m.pace > 0 {
		m.free = max(m.free-nanoseconds(float64(n)/m.pace)+1, m.last)
	}
}

// landed is one fewer in flight, and tells whether what it met was still the rate
// of now. Which of them it was is not known, so the first to land count as the
// oldest.
func (m *adaptive) landed() (current bool) {
	m.flying = max(m.flying-1, 0)
	if m.stale > 0 {
		m.stale--
		return false
	}
	return true
}

func (m *adaptive) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.at(now)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		from := max(m.free, v)
		if at, known := m.clock.past(taken); known && at >= m.last {
			from = m.free
		}
		m.free = plus(from, m.gap(more))
		m.spent.add(v, more)
	case more < 0:
		if at, known := m.clock.past(taken); known {
			m.spent.back(at, -more)
			m.back(at, -more)
		}
	}
}

func (m *adaptive) Done(now, _ time.Time, _ int64, o Outcome) {
	v := m.at(now)
	m.used = v
	current := m.landed()
	switch o {
	case Success:
		if current {
			m.good()
		}
	case Refused, Failed:
		if current {
			m.wrong(v)
		}
	case Abandoned:
	}
}

func (m *adaptive) good() {
	if m.streak++; m.streak < streakToRise {
		return
	}
	m.streak = 0
	if m.rate >= m.refused {
		m.refused = 0 // it is not too much any more
	}
	step := rise
	if m.refused > 0 && m.rate*rise > m.refused*near {
		step = approach
	}
	m.rate = min(m.rate*step, m.max)
}

func (m *adaptive) wrong(v int64) {
	m.streak = 0
	copy(m.bad[:], m.bad[1:])
	m.bad[badToFall-1] = max(v, 1)
	if m.bad[0] == 0 || v-m.bad[0] >= m.window {
		return
	}
	m.bad = [badToFall]int64{}
	m.refused, m.rate = m.rate, max(m.rate*fall, m.min)
	m.stale = m.flying
	// The next waits as long as the new rate wants, whatever is settled yet.
	m.free, m.pace = max(m.free, plus(m.last, m.gap(1))), 0
}

// Left is what a second brings when the way is free.
func (m *adaptive) Left(now time.Time) int64 {
	v := m.at(now)
	if v < m.free {
		return 0
	}
	return max(int64(m.rate), 1)
}

// Idle is true of a rate that would begin no lower.
func (m *adaptive) Idle(now time.Time) bool {
	v := m.at(now)
	return m.flying == 0 && v >= m.free && m.rate >= m.middle() && m.refused == 0 &&
		v-m.bad[badToFall-1] >= m.window
}

func (m *adaptive) State() []byte {
	b := newEncoder(Adaptive)
	b.int(m.clock.last)
	m.spent.append(&b)
	b.float(m.rate)
	b.float(m.refused)
	b.int(int64(m.streak))
	b.int(max(m.free-m.clock.last, 0))
	b.int(m.used)
	for _, t := range m.bad {
		b.int(t)
	}
	return b
}

func (m *adaptive) Restore(now time.Time, state []byte) error {
	d := newDecoder(Adaptive, state)
	last := d.time(edge)
	spent := d.spent(last)
	speed, refused := d.float(slowest, fastest), d.float(0, fastest)
	streak := d.between(0, streakToRise-1)
	rest, used := d.between(0, math.MaxInt64), d.time(last)
	var bad [badToFall]int64
	for i := range bad {
		bad[i] = d.time(last)
	}
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	spent.move(by)
	m.spent, m.streak, m.used = spent, int(streak), max(used+by, 0)
	m.rate, m.refused = min(max(speed, m.min), m.max), refused
	m.last, m.free = last+by, plus(last+by, rest)
	for i, t := range bad {
		m.bad[i] = t
		if t != 0 {
			m.bad[i] = max(t+by, 1)
		}
	}
	return nil
}
