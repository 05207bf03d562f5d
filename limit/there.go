package limit

import "time"

// there is a server's own bucket as it may stand. It begins to fill again when a
// request arrives, which is later than when that was let go: while it is full that
// time is lost there, and what follows at its full pace would come too early. So a
// request that finds it full counts as arriving after the margin. What goes until
// then, on its heels, can arrive before it, and has what was there for both.
//
// It is kept as the time at which the bucket is full again, as in the generic cell
// rate algorithm.
type there struct {
	margin int64
	each   float64 // nanoseconds for a unit
	burst  int64
	full   int64 // when it is full, if everything arrives as late as it can

	began int64 // when a request found it full
	ahead int64 // when that one has arrived
	near  int64 // when it would be full if all since then had arrived at began
}

func newThere(window time.Duration, burst int64, refill float64) there {
	each := 1e9 / refill
	// With a burst of one the margin would slow every request down, not only those
	// that find the bucket full.
	return there{margin: min(margin(int64(window)), nanoseconds(float64(burst-1)/refill)), each: each, burst: burst}
}

// units is how long n take to come back, rounded down.
func (t *there) units(n int64) int64 {
	if long := float64(n) * t.each; long < float64(edge) {
		return int64(long)
	}
	return edge
}

// when is from when on n are there for a request that is let go at v or later.
func (t *there) when(v, n int64) int64 {
	rest := t.units(t.burst - n)
	if v < t.ahead && t.near-rest <= t.began {
		return v
	}
	return max(t.full-rest, v)
}

// take counts n that are let go at v, or gives them back.
func (t *there) take(v, n int64) {
	if t.margin == 0 {
		return
	}
	long := t.units(max(n, -n))
	if n < 0 {
		t.full -= long
		t.near -= long
		return
	}
	arrives := v + t.margin
	switch {
	case v < t.ahead:
		t.near = plus(t.near, long)
	case arrives > t.full:
		t.began, t.ahead, t.near = v, arrives, plus(max(v, t.full), long)
	}
	t.full = plus(max(t.full, arrives), long)
}

// late says that n which were counted arrive only from v on. If the bucket was full
// until then, all of that time is lost there.
func (t *there) late(v, n int64) {
	if t.margin > 0 {
		t.full = max(t.full, plus(v+t.margin, t.units(n)))
	}
}

// left is how many of those that are here are there too.
func (t *there) left(v int64, here float64) float64 {
	missing := t.full - v
	if v < t.ahead {
		missing = min(missing, t.near-t.began)
	}
	return min(here, float64(t.burst)-float64(missing)/t.each)
}

// idle tells whether it is full whatever is on its way.
func (t *there) idle(v int64) bool { return v >= t.full }

// The state has times as steps from the latest of the clock.
func (t *there) append(b *encoder, last int64) {
	for _, at := range [...]int64{t.full, t.ahead, t.near, t.began} {
		b.int(at - last)
	}
}

func (t *there) read(d *decoder, last int64) {
	for _, at := range [...]*int64{&t.full, &t.ahead, &t.near, &t.began} {
		*at = plus(last, d.between(-last, edge))
	}
	if t.began > last || t.ahead < t.began || t.near > t.full {
		d.fail()
	}
}

// bound has the bucket be full no later than it can be when so many units are missing
// here, and everything has arrived as late as it can.
func (t *there) bound(last int64, missing float64) {
	long := edge
	if ns := max(missing, float64(t.burst)) * t.each; ns < float64(edge) {
		long = int64(ns)
	}
	t.full = min(t.full, plus(plus(last, t.margin), long))
	t.near = min(t.near, t.full)
	t.ahead = min(t.ahead, plus(t.began, t.margin))
}

func (t *there) shift(by int64) {
	for _, at := range [...]*int64{&t.full, &t.ahead, &t.near, &t.began} {
		*at = max(plus(*at, by), 0)
	}
}
