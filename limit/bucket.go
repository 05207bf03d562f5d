package limit

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// bucket is amount per window on average and burst at once: in any length of time,
// at most burst and what that time brings.
//
// It counts in floating point, so a request may go some millionths of a unit early.
type bucket struct {
	clock  steady
	spent  past
	burst  int64
	refill float64 // units per second
	slop   float64 // what counts as a unit although it is a little less
	tokens *rate.Limiter
	seen   int64 // when the limiter was last asked; -1: something went in or out since
	stood  float64
	past   heights
	there  there
}

func newBucket(s Spec) *bucket {
	burst := s.Burst
	if burst == 0 {
		burst = s.Amount
	}
	refill := float64(s.Amount) / s.Window.Seconds()
	return &bucket{
		burst: burst, refill: refill, slop: max(1e-6, float64(burst)*1e-12),
		tokens: rate.NewLimiter(rate.Limit(refill), int(burst)), seen: -1,
		there: newThere(s.Window, burst, refill),
	}
}

// level is how full the bucket is. It is asked for twice at the same moment, and
// the second time nothing has changed.
func (m *bucket) level(v int64) float64 {
	if m.seen != v {
		m.seen, m.stood = v, m.tokens.TokensAt(moment(v))
	}
	return m.stood
}

// moment is v as the limiter wants it. It is always on the steady clock: the
// limiter would let time pass twice that the caller's clock has gone back.
func moment(v int64) time.Time { return time.Unix(0, v) }

func (m *bucket) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.burst {
		return now, false
	}
	v := m.clock.at(now)
	at := v
	if missing := float64(n) - m.level(v); missing > m.slop {
		at = plus(v, nanoseconds(missing/m.refill))
	}
	at = max(at, m.there.when(v, n))
	return later(now, at-v), true
}

// nanoseconds is a number of seconds, rounded up and within what is counted.
func nanoseconds(seconds float64) int64 {
	if seconds >= float64(edge)/1e9 {
		return edge
	}
	return int64(math.Ceil(seconds * 1e9))
}

func (m *bucket) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.clock.at(now)
	m.past.drained(v, m.level(v))
	m.pour(v, -n)
	m.there.take(v, n)
	m.spent.add(v, n)
}

// pour adds n, which is more often less than nothing. The bucket may owe any
// amount, and never has more than burst.
func (m *bucket) pour(v, n int64) {
	t := moment(v)
	m.seen = -1
	if n < 0 && -n <= m.burst {
		m.tokens.ReserveN(t, int(-n))
		return
	}
	// The limiter refuses more than its burst, and is asked for less than nothing
	// where something comes back.
	m.tokens.SetBurstAt(t, math.MaxInt)
	m.tokens.ReserveN(t, int(-n))
	m.tokens.SetBurstAt(t, int(m.burst))
}

// Postpone leaves what was taken here: it has been there for long enough.
func (m *bucket) Postpone(now, taken time.Time, n int64) {
	v := m.clock.at(now)
	m.there.late(v, n)
	if at, known := m.clock.past(taken); known {
		m.spent.back(at, n)
		m.spent.add(v, n)
	}
}

func (m *bucket) Give(now, taken time.Time, n int64) {
	v := m.clock.at(now)
	at, known := m.clock.past(taken)
	if n = amount(n); !known || n == 0 {
		return
	}
	m.spent.back(at, n)
	m.back(v, at, n)
}

// back gives n back as far as the bucket would have held it: had it not been taken,
// the bucket would have stood that much higher since, and what then ran over is lost.
func (m *bucket) back(v, at, n int64) {
	highest := max(m.past.since(at), m.level(v))
	room := math.Floor(float64(m.burst) - highest + m.slop)
	if n = min(n, int64(max(room, 0))); n > 0 {
		m.pour(v, n)
		m.there.take(v, -n)
		m.past.raise(at, float64(n))
	}
}

func (m *bucket) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.clock.at(now)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		m.past.drained(v, m.level(v))
		m.pour(v, -more)
		m.there.take(v, more)
		m.spent.add(v, more)
	case more < 0:
		if at, known := m.clock.past(taken); known {
			m.spent.back(at, -more)
			m.back(v, at, -more)
		}
	}
}

func (m *bucket) Done(_, _ time.Time, _ int64, _ Outcome) {}

func (m *bucket) Left(now time.Time) int64 {
	v := m.clock.at(now)
	return int64(max(math.Floor(m.there.left(v, m.level(v))+m.slop), 0))
}

func (m *bucket) Idle(now time.Time) bool {
	v := m.clock.at(now)
	return m.there.idle(v) && m.level(v) >= float64(m.burst)
}

func (m *bucket) State() []byte {
	b := newEncoder(Bucket)
	b.int(m.clock.last)
	m.spent.append(&b)
	m.there.append(&b, m.clock.last)
	b.float(max(m.level(m.clock.last), -most))
	return b
}

func (m *bucket) Restore(now time.Time, state []byte) error {
	d := newDecoder(Bucket, state)
	last := d.time(edge)
	spent := d.spent(last)
	far := m.there
	far.read(d, last)
	tokens := d.float(-most, most)
	if err := d.done(); err != nil {
		return err
	}
	far.bound(last, float64(m.burst)-tokens)
	by := m.clock.restored(now, last)
	spent.move(by)
	far.shift(by)
	m.spent, m.past, m.there = spent, heights{}, far
	m.hold(last+by, tokens)
	return nil
}

// hold makes the bucket have at most a number of tokens at v.
func (m *bucket) hold(v int64, tokens float64) {
	m.tokens, m.seen = rate.NewLimiter(rate.Limit(m.refill), int(m.burst)), -1
	missing := float64(m.burst) - tokens
	if missing <= 0 {
		return
	}
	// Whole units only, so a little earlier: by v the rest has come back.
	whole := math.Ceil(missing)
	m.pour(v-int64((whole-missing)/m.refill*1e9), -int64(whole))
}
