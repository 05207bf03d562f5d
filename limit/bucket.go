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

// serverBucket estimates the server's own bucket. That bucket begins to refill when a
// request arrives, later than the request was sent. While it is full, that time is lost at
// the server, and requests that follow at the full rate would arrive too early. So a
// request that finds the bucket full counts as arriving after the margin. Requests sent
// until then can arrive before that request, and both take from the full bucket.
//
// The bucket is represented by the time at which it is full again, as in the generic cell
// rate algorithm.
type serverBucket struct {
	margin       int64
	nanosPerUnit float64 // nanoseconds for a unit
	burst        int64
	fullAt       int64 // when the bucket is full, if every request arrives as late as possible

	foundFullAt    int64 // when a request found the bucket full
	firstArrival   int64 // when that request has arrived
	fullAtEarliest int64 // when the bucket would be full if all requests since then had arrived at foundFullAt
}

func newServerBucket(window time.Duration, burst int64, refill float64) serverBucket {
	each := 1e9 / refill
	// With a burst of one the margin would slow every request down, not only those
	// that find the bucket full.
	return serverBucket{margin: min(margin(int64(window)), nanoseconds(float64(burst-1)/refill)), nanosPerUnit: each, burst: burst}
}

// units returns the time in which n units refill, rounded down.
func (t *serverBucket) units(n int64) int64 {
	if long := float64(n) * t.nanosPerUnit; long < float64(FarFuture) {
		return int64(long)
	}
	return FarFuture
}

// when is the time from which the server has n units for a request sent at v or later.
func (t *serverBucket) when(v, n int64) int64 {
	rest := t.units(t.burst - n)
	if v < t.firstArrival && t.fullAtEarliest-rest <= t.foundFullAt {
		return v
	}
	return max(t.fullAt-rest, v)
}

// take counts n units sent at v; a negative n gives back.
func (t *serverBucket) take(v, n int64) {
	if t.margin == 0 {
		return
	}
	long := t.units(max(n, -n))
	if n < 0 {
		t.fullAt -= long
		t.fullAtEarliest -= long
		return
	}
	arrives := v + t.margin
	switch {
	case v < t.firstArrival:
		t.fullAtEarliest = plus(t.fullAtEarliest, long)
	case arrives > t.fullAt:
		t.foundFullAt, t.firstArrival, t.fullAtEarliest = v, arrives, plus(max(v, t.fullAt), long)
	}
	t.fullAt = plus(max(t.fullAt, arrives), long)
}

// postpone moves n counted units: they arrive from v on. If the bucket was full until then,
// that time is lost at the server.
func (t *serverBucket) postpone(v, n int64) {
	if t.margin > 0 {
		t.fullAt = max(t.fullAt, plus(v+t.margin, t.units(n)))
	}
}

// left returns the number of the units here that the server has, too.
func (t *serverBucket) left(v int64, here float64) float64 {
	missing := t.fullAt - v
	if v < t.firstArrival {
		missing = min(missing, t.fullAtEarliest-t.foundFullAt)
	}
	return min(here, float64(t.burst)-float64(missing)/t.nanosPerUnit)
}

// append writes the times of the state as differences from last.
func (t *serverBucket) append(b *encoder, last int64) {
	for _, at := range [...]int64{t.fullAt, t.firstArrival, t.fullAtEarliest, t.foundFullAt} {
		b.int(at - last)
	}
}

func (t *serverBucket) read(d *decoder, last int64) {
	for _, at := range [...]*int64{&t.fullAt, &t.firstArrival, &t.fullAtEarliest, &t.foundFullAt} {
		*at = plus(last, d.between(-last, FarFuture))
	}
	if t.foundFullAt > last || t.firstArrival < t.foundFullAt || t.fullAtEarliest > t.fullAt {
		d.fail()
	}
}

// bound sets an upper bound of fullAt when so many units are missing here and everything
// arrives as late as possible.
func (t *serverBucket) bound(last int64, missing float64) {
	long := FarFuture
	if ns := max(missing, float64(t.burst)) * t.nanosPerUnit; ns < float64(FarFuture) {
		long = int64(ns)
	}
	t.fullAt = min(t.fullAt, plus(plus(last, t.margin), long))
	t.fullAtEarliest = min(t.fullAtEarliest, t.fullAt)
	t.firstArrival = min(t.firstArrival, plus(t.foundFullAt, t.margin))
}

func (t *serverBucket) shift(by int64) {
	for _, at := range [...]*int64{&t.fullAt, &t.firstArrival, &t.fullAtEarliest, &t.foundFullAt} {
		*at = max(plus(*at, by), 0)
	}
}

// highWater remembers the highest level of a bucket since some time: exactly for the last
// takes, and more coarsely for older ones. The zero value remembers nothing.
type highWater struct {
	count int
	marks [32]highMark
}

// highMark is the highest level after start, up to the start of the next mark. Levels
// between takes at the same time do not count.
type highMark struct {
	start int64
	most  float64
}

// drained records a take at v from a bucket whose level was at most full since the last
// take.
func (h *highWater) drained(v int64, full float64) {
	if h.count > 0 {
		last := &h.marks[h.count-1]
		if last.start == v {
			return
		}
		last.most = max(last.most, full)
	}
	if h.count == len(h.marks) {
		for i := range h.count / 2 {
			a, b := h.marks[2*i], h.marks[2*i+1]
			h.marks[i] = highMark{a.start, max(a.most, b.most)}
		}
		h.count /= 2
	}
	h.marks[h.count] = highMark{start: v}
	h.count++
}

// from is the last mark not after v, or the first.
func (h *highWater) from(v int64) int {
	i := h.count - 1
	for i > 0 && h.marks[i].start > v {
		i--
	}
	return max(i, 0)
}

// since is the highest level after v, as far as known.
func (h *highWater) since(v int64) float64 {
	fullest := 0.0
	for _, m := range h.marks[h.from(v):h.count] {
		fullest = max(fullest, m.most)
	}
	return fullest
}

// raise records that the level would have been higher since v.
func (h *highWater) raise(v int64, by float64) {
	for i := h.from(v); i < h.count; i++ {
		h.marks[i].most += by
	}
}
