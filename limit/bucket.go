package limit

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// bucket is a token bucket: amount per window on average and burst at once. Any length of
// time allows at most burst plus the refill of that time.
//
// It counts in floating point, so a request may go some millionths of a unit early.
type bucket struct {
	clock     Clock
	spent     history // all takes, for another kind of limit after a reload: see meter in move.go
	burst     int64
	refill    float64 // units per second
	slop      float64 // counts as rounding error of a whole unit
	tokens    *rate.Limiter
	levelAt   int64 // time of lastLevel; -1: units were taken or added since
	lastLevel float64
	highest   highWater // past levels; Give needs them: what would have overflowed is not given back
	server    serverBucket
}

func newBucket(s Spec) *bucket {
	burst := s.AtOnce()
	refill := float64(s.Amount) / s.Window.Seconds()
	return &bucket{
		burst: burst, refill: refill, slop: max(1e-6, float64(burst)*1e-12),
		tokens: rate.NewLimiter(rate.Limit(refill), int(burst)), levelAt: -1,
		server: newServerBucket(s.Window, burst, refill),
	}
}

// level is the number of tokens. It is called twice for the same time; the second call uses
// the cached value.
func (m *bucket) level(v int64) float64 {
	if m.levelAt != v {
		m.levelAt, m.lastLevel = v, m.tokens.TokensAt(limiterTime(v))
	}
	return m.lastLevel
}

// limiterTime is v for the rate.Limiter. It comes from Clock, which never goes back: the
// limiter would refill twice for a repeated time.
func limiterTime(v int64) time.Time { return time.Unix(0, v) }

func (m *bucket) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 || n > m.burst {
		return now, n <= 0
	}
	v := m.clock.At(now)
	at := v
	if missing := float64(n) - m.level(v); missing > m.slop {
		at = plus(v, nanoseconds(missing/m.refill))
	}
	at = max(at, m.server.when(v, n))
	return later(now, at-v), true
}

func (m *bucket) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.clock.At(now)
	m.highest.drained(v, m.level(v))
	m.add(v, -n)
	m.server.take(v, n)
	m.spent.add(v, n)
}

// add adds n tokens, usually a negative number. The level may be negative, and is at most
// burst.
func (m *bucket) add(v, n int64) {
	t := limiterTime(v)
	m.levelAt = -1
	if n < 0 && -n <= m.burst {
		m.tokens.ReserveN(t, int(-n))
		return
	}
	// The limiter refuses amounts above its burst, so a large take is split; it returns
	// tokens for negative amounts.
	m.tokens.SetBurstAt(t, math.MaxInt)
	m.tokens.ReserveN(t, int(-n))
	m.tokens.SetBurstAt(t, int(m.burst))
}

// Postpone does not change the tokens, which were taken earlier than necessary.
func (m *bucket) Postpone(now, taken time.Time, n int64) {
	v := m.clock.At(now)
	m.server.postpone(v, n)
	if at, known := m.clock.past(taken); known {
		m.spent.remove(at, n)
		m.spent.add(v, n)
	}
}

func (m *bucket) Give(now, taken time.Time, n int64) {
	m.Settle(now, taken, n, 0)
}

// giveBack returns n tokens as far as the bucket would have held them: without the take the
// level would have been that much higher since, and the overflow is lost.
func (m *bucket) giveBack(v, at, n int64) {
	highest := max(m.highest.since(at), m.level(v))
	room := math.Floor(float64(m.burst) - highest + m.slop)
	if n = min(n, int64(max(room, 0))); n > 0 {
		m.add(v, n)
		m.server.take(v, -n)
		m.highest.raise(at, float64(n))
	}
}

func (m *bucket) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.clock.At(now)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
		m.highest.drained(v, m.level(v))
		m.add(v, -more)
		m.server.take(v, more)
		m.spent.add(v, more)
	case more < 0:
		if at, known := m.clock.past(taken); known {
			m.spent.remove(at, -more)
			m.giveBack(v, at, -more)
		}
	}
}

func (m *bucket) Done(_, _ time.Time, _ int64, _ Outcome) {}

func (m *bucket) Left(now time.Time) int64 {
	v := m.clock.At(now)
	return int64(max(math.Floor(m.server.left(v, m.level(v))+m.slop), 0))
}

func (m *bucket) Idle(now time.Time) bool {
	v := m.clock.At(now)
	return v >= m.server.fullAt && m.level(v) >= float64(m.burst)
}

func (m *bucket) State() []byte {
	b := newState(Bucket, m.clock.last, &m.spent)
	m.server.append(&b, m.clock.last)
	b.float(max(m.level(m.clock.last), -maxAmount))
	return b
}

func (m *bucket) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(Bucket, state)
	far := m.server
	far.read(d, last)
	tokens := d.float(-maxAmount, maxAmount)
	if err := d.done(); err != nil {
		return err
	}
	far.bound(last, float64(m.burst)-tokens)
	by := m.clock.restored(now, last)
	spent.move(by)
	far.shift(by)
	m.spent, m.highest, m.server = spent, highWater{}, far
	m.setAtMost(last+by, tokens)
	return nil
}

// setAtMost reduces the bucket to a number of tokens at v.
func (m *bucket) setAtMost(v int64, tokens float64) {
	m.tokens, m.levelAt = rate.NewLimiter(rate.Limit(m.refill), int(m.burst)), -1
	missing := float64(m.burst) - tokens
	if missing <= 0 {
		return
	}
	// Whole units only, so a little earlier: by v the rest has come back.
	whole := math.Ceil(missing)
	m.add(v-int64((whole-missing)/m.refill*1e9), -int64(whole))
}

// replay takes the tokens that the given takes would have.
func (m *bucket) replay(v int64, list []Spent) {
	level, last := float64(m.burst), int64(0)
	for _, s := range list {
		at := max(v-int64(s.Ago), 0)
		level = min(level+float64(at-last)/1e9*m.refill, float64(m.burst))
		level = max(level-float64(s.N), 0)
		last = at
		m.server.take(at, min(s.N, m.burst))
	}
	level = min(level+float64(v-last)/1e9*m.refill, float64(m.burst))
	m.setAtMost(v, level)
	m.server.bound(v, float64(m.burst)-level)
	// Levels of another bucket do not apply to this one: nothing is given back.
	m.highest.drained(v, 0)
	m.highest.raise(v, float64(m.burst))
}

// past is for Move to another kind. The units that count are the missing ones, whenever they were taken.
func (m *bucket) past(now time.Time) ([]Spent, int64, int64) {
	v := m.clock.At(now)
	return m.spent.spent(v), FarFuture, int64(math.Ceil(float64(m.burst) - m.level(v)))
}

// carry is for a bucket that replaces a limit of another kind.
func (m *bucket) carry(now time.Time, list []Spent) {
	v := m.clock.At(now)
	m.spent.takeAll(v, list)
	m.replay(v, list)
}

// become is for a bucket that replaces a bucket with other numbers.
func (m *bucket) become(now time.Time, to Meter, list []Spent) Meter {
	fresh, same := to.(*bucket)
	if !same {
		return nil
	}
	v := m.clock.At(now)
	level := m.level(v)
	fresh.clock, fresh.spent = m.clock, m.spent
	fresh.replay(v, list)
	fresh.setAtMost(v, min(level, fresh.level(v)))
	return fresh
}
