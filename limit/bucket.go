package limit

import (
	"math"
	"time"
)

// bucket is a token bucket: amount per window on average and burst at once. Any length of
// time allows at most burst plus the refill of that time, whenever requests arrive at the
// server within the margin after they were sent.
//
// The server's own bucket begins to refill when a request arrives. While it is full, that
// time is lost at the server, and requests that follow at the full rate would arrive too
// early. So a request that finds the bucket full costs what refills in the margin, too.
// Requests sent within the margin after that request can arrive before it, and take from
// the full bucket.
//
// It counts in floating point, so a request may go some millionths of a unit early.
type bucket struct {
	counter
	clock   Clock
	burst   int64
	refill  float64 // units per second
	slop    float64 // counts as rounding error of a whole unit
	margin  int64   // the time in which a request may arrive
	late    float64 // units that refill in that time
	tokens  float64 // of the server at the time since, if every request arrives as late as possible
	since   int64
	still   float64 // what the last request that found the bucket full has left of the full bucket
	until   int64   // when that request has arrived
	carried int64   // nothing is given back of takes up to then, which other numbers have counted
}

func newBucket(s Spec) *bucket {
	burst := s.AtOnce()
	m := &bucket{burst: burst, refill: float64(s.Amount) / s.Window.Seconds(), slop: max(1e-6, float64(burst)*1e-12), tokens: float64(burst)}
	// With a burst of one the margin would slow every request down, not only those
	// that find the bucket full.
	m.margin = min(margin(int64(s.Window)), nanoseconds(float64(burst-1)/m.refill))
	m.late = m.units(m.margin)
	return m
}

// units returns what refills in a time.
func (m *bucket) units(long int64) float64 { return float64(long) / 1e9 * m.refill }

// level is the number of tokens. It may be negative.
func (m *bucket) level(v int64) float64 {
	return min(m.tokens+m.units(v-m.since), float64(m.burst))
}

// sent is the number of tokens if every request arrives when it is sent, at a level.
func (m *bucket) sent(level float64) float64 { return min(level+m.late, float64(m.burst)) }

// free is the number of tokens for requests that are sent at v.
func (m *bucket) free(v int64) float64 {
	if level := m.level(v); v >= m.until || level > m.still {
		return level
	}
	return m.still
}

// highestSince is the highest level since the take at a time without that take, or more, reckoned back from the level
// at v: the history has amounts no earlier than they were taken, and that take no more.
func (m *bucket) highestSince(at, v int64) float64 {
	level := m.sent(m.level(v))
	highest := level
	for i := m.spent.count - 1; i >= 0 && highest < float64(m.burst); i-- {
		t := m.spent.at(i)
		if t.at < at {
			break
		}
		level += float64(t.n) - m.units(v-t.at)
		highest, v = max(highest, level), t.at
	}
	return highest
}

func (m *bucket) at(now time.Time) int64 { return m.clock.At(now) }

func (m *bucket) earlier(t time.Time) (v int64, known bool) { return m.clock.past(t) }

func (m *bucket) most() int64 { return m.burst }

func (m *bucket) when(v, n int64) int64 {
	if float64(n)-m.free(v) > m.slop {
		return plus(v, nanoseconds((float64(n)-m.level(v))/m.refill))
	}
	return v
}

func (m *bucket) take(v, n int64) {
	level := m.level(v)
	full := float64(m.burst) - m.late
	switch {
	case v < m.until:
		m.still -= float64(n)
	case level > full:
		m.still, m.until = level-float64(n), v+m.margin
	}
	m.set(v, min(level, full)-float64(n))
}

func (m *bucket) set(v int64, tokens float64) {
	m.tokens, m.since = min(tokens, float64(m.burst)), v
}

// bound leaves no more tokens than there are at a level if every request arrives when it is
// sent.
func (m *bucket) bound(v int64, level float64) {
	if level < float64(m.burst) {
		m.set(v, min(m.level(v), level-m.late))
	}
}

// Postpone moves n units: they arrive from now on. If the bucket was full until then, that
// time is lost at the server. A burst of one knows no margin.
func (m *bucket) Postpone(now, taken time.Time, n int64) {
	v := m.clock.At(now)
	if m.margin > 0 {
		m.bound(v, float64(m.burst-amount(n)))
	}
	if at, known := m.clock.past(taken); known {
		m.spent.remove(at, n)
		m.spent.add(v, n)
	}
}

func (m *bucket) more(v, _, n int64) { m.take(v, n) }

// less returns n tokens as far as the bucket would have held them: without the take the
// level would have been that much higher since, and the overflow is lost.
func (m *bucket) less(v, at, n int64) {
	if at <= m.carried {
		return
	}
	back := min(float64(n), max(float64(m.burst)-m.highestSince(at, v), 0))
	m.set(v, m.level(v)+back)
	if at >= m.until-m.margin { // of the full bucket, to which nothing is added until then
		back = float64(n)
	}
	m.still = min(m.still+back, float64(m.burst))
}

func (m *bucket) left(v int64) int64 { return int64(math.Floor(m.free(v) + m.slop)) }

func (m *bucket) idle(v int64) bool { return m.level(v) >= float64(m.burst) }

// State has four times as differences from the last: when the server's bucket is full, when
// the request has arrived that found the bucket full, when the bucket would be full if all
// requests since then had arrived with that request, and when that request was sent.
func (m *bucket) State() []byte {
	last := m.clock.last
	level, found := m.level(last), max(m.until-m.margin, 0)
	full := m.refilled(last, level)
	b := newState(Bucket, last, &m.spent)
	for _, at := range [...]int64{full, m.until, min(m.refilled(found, m.still), full), found} {
		b.int(at - last)
	}
	b.float(max(m.sent(level), -maxAmount))
	return b
}

// refilled returns when a bucket is full that has a level at v.
func (m *bucket) refilled(v int64, level float64) int64 {
	return plus(v, nanoseconds((float64(m.burst)-level)/m.refill))
}

func (m *bucket) Restore(now time.Time, state []byte) error {
	d, last, spent := readState(Bucket, state)
	var times [4]int64
	for i := range times {
		times[i] = plus(last, d.between(-last, FarFuture))
	}
	full, until, early, found := times[0], times[1], times[2], times[3]
	if found > last || until < found || early > full {
		d.fail()
	}
	level := d.float(-maxAmount, maxAmount)
	if err := d.done(); err != nil {
		return err
	}
	by := m.clock.restored(now, last)
	spent.move(by)
	burst := float64(m.burst)
	m.spent, m.until = spent, max(min(until, plus(found, m.margin))+by, 0)
	m.still = min(burst-m.units(early-found-1), burst) // the time was rounded up
	m.set(last+by, max(burst-m.units(full-last), min(level, 0)-m.late))
	m.bound(last+by, level)
	return nil
}

// replay takes the tokens that the given takes would have.
func (m *bucket) replay(v int64, list []Spent) {
	for _, s := range list {
		m.take(max(v-int64(s.Ago), 0), min(s.N, m.burst))
	}
	m.set(v, max(m.level(v), -m.late))
	m.carried = v
}

// counted is the missing units, whenever they were taken.
func (m *bucket) counted(v int64) (within, units int64) {
	return FarFuture, int64(math.Ceil(max(float64(m.burst)-m.sent(m.level(v))-m.slop, 0)))
}

// become is for a bucket that replaces a bucket with other numbers.
func (m *bucket) become(now time.Time, to Meter, list []Spent) Meter {
	fresh, v := to.(*bucket), m.at(now)
	fresh.clock, fresh.spent = m.clock, m.spent
	fresh.replay(v, list)
	fresh.bound(v, m.sent(m.level(v)))
	return fresh
}
