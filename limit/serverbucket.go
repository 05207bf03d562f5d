package limit

import "time"

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
