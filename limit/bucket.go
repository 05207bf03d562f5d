package limit

import (
	"math"
	"time"
)

// bucket is a token bucket: amount per window on average and burst at once. Any length of
// time allows at most burst plus the refill of that time.
//
// It counts in floating point, so a request may go some millionths of a unit early.
type bucket struct {
	record
	burst   int64
	refill  float64 // units per second
	slop    float64 // counts as rounding error of a whole unit
	tokens  float64 // at the time since
	since   int64
	carried int64 // nothing is given back of takes up to then, which other numbers have counted
	server  serverBucket
}

func newBucket(s Spec) *bucket {
	burst := s.AtOnce()
	refill := float64(s.Amount) / s.Window.Seconds()
	return &bucket{
		burst: burst, refill: refill, slop: max(1e-6, float64(burst)*1e-12), tokens: float64(burst),
		server: newServerBucket(s.Window, burst, refill),
	}
}

// level is the number of tokens. It may be negative.
func (m *bucket) level(v int64) float64 {
	return min(m.tokens+float64(v-m.since)/1e9*m.refill, float64(m.burst))
}

// highestSince is the highest level after the take at a time, or more, reckoned back from
// the level at v: the history has amounts no earlier than they were taken.
func (m *bucket) highestSince(at, v int64) float64 {
	level := m.level(v)
	highest := level
	for i := m.spent.count - 1; i >= 0 && highest < float64(m.burst); i-- {
		t := m.spent.at(i)
		if t.at <= at {
			break
		}
		level += float64(t.n) - float64(v-t.at)/1e9*m.refill
		highest, v = max(highest, level), t.at
	}
	return highest
}

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
	return now.Add(time.Duration(at - v)), true
}

func (m *bucket) Take(now time.Time, n int64) {
	if n = amount(n); n == 0 {
		return
	}
	v := m.clock.At(now)
	m.add(v, -n)
	m.server.take(v, n)
	m.spent.add(v, n)
}

// add adds n tokens, usually a negative number.
func (m *bucket) add(v, n int64) { m.set(v, m.level(v)+float64(n)) }

func (m *bucket) set(v int64, tokens float64) {
	m.tokens, m.since = min(tokens, float64(m.burst)), v
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
	if at <= m.carried {
		return
	}
	room := math.Floor(float64(m.burst) - m.highestSince(at, v) + m.slop)
	if n = min(n, int64(max(room, 0))); n > 0 {
		m.add(v, n)
		m.server.take(v, -n)
	}
}

func (m *bucket) Settle(now, taken time.Time, estimate, actual int64) {
	v := m.clock.At(now)
	switch more := amount(actual) - amount(estimate); {
	case more > 0:
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
	m.spent, m.server = spent, far
	m.set(last+by, tokens)
	return nil
}

// replay takes the tokens that the given takes would have.
func (m *bucket) replay(v int64, list []Spent) {
	m.set(0, float64(m.burst))
	for _, s := range list {
		at := max(v-int64(s.Ago), 0)
		m.set(at, max(m.level(at)-float64(s.N), 0))
		m.server.take(at, min(s.N, m.burst))
	}
	m.server.bound(v, float64(m.burst)-m.level(v))
	m.carried = v
}

// counted is the missing units, whenever they were taken.
func (m *bucket) counted(v int64) (within, units int64) {
	return FarFuture, int64(math.Ceil(float64(m.burst) - m.level(v)))
}

// become is for a bucket that replaces a bucket with other numbers.
func (m *bucket) become(now time.Time, to Meter, list []Spent) Meter {
	fresh, v := to.(*bucket), m.at(now)
	level := m.level(v)
	fresh.record = m.record
	fresh.replay(v, list)
	fresh.set(v, min(level, fresh.level(v)))
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

// times are those of the state.
func (t *serverBucket) times() [4]*int64 {
	return [...]*int64{&t.fullAt, &t.firstArrival, &t.fullAtEarliest, &t.foundFullAt}
}

// append writes the times as differences from last.
func (t *serverBucket) append(b *encoder, last int64) {
	for _, at := range t.times() {
		b.int(*at - last)
	}
}

func (t *serverBucket) read(d *decoder, last int64) {
	for _, at := range t.times() {
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
	for _, at := range t.times() {
		*at = max(plus(*at, by), 0)
	}
}
