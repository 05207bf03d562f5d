package limit

import "time"

const (
	// credible is the farthest that an announced time is believed.
	credible = int64(31 * 24 * time.Hour)
	// incredible is how long a wait is kept that was announced for longer.
	incredible = int64(24 * time.Hour)
)

// told is what a server has announced, and what was taken, on the clock of its meter.
// Its zero value is that of a server that has said nothing and was asked for nothing.
type told struct {
	until int64 // nothing may go before
	reset int64 // until then at most left may be taken
	left  int64
	heard int64 // when left was announced
	past  past
}

// when is the first time at which n may go by what was announced.
func (a *told) when(v, n int64) int64 {
	if v < a.reset && n > a.left {
		v = a.reset
	}
	return max(v, a.until)
}

func (a *told) take(v, n int64) {
	a.past.add(v, n)
	if v < a.reset {
		a.left = max(a.left-n, -most)
	}
}

// give puts back what was taken after the announcement; before, it was not
// taken from it.
func (a *told) give(v, taken, n int64) {
	a.past.back(taken, n)
	if v < a.reset && taken > a.heard {
		a.left = min(a.left+n, most)
	}
}

// remaining is how much of own may be taken at once.
func (a *told) remaining(v, own int64) int64 {
	switch {
	case v < a.until:
		return 0
	case v < a.reset:
		return max(min(own, a.left), 0)
	}
	return own
}

func (a *told) idle(v int64) bool { return v >= a.until && v >= a.reset }

// hear believes an observation as far as it tightens. A larger remainder is a
// newer window of the server's, or an answer that came out of order: in the one
// case our own count is enough, in the other it would be wrong.
func (a *told) hear(v int64, o Observation, on func(time.Time) int64) {
	if !o.RetryAt.IsZero() {
		t := on(o.RetryAt)
		if t-v > credible {
			t = v + incredible
		}
		a.until = max(a.until, t)
	}
	if o.Reset.IsZero() {
		return
	}
	left := o.Remaining
	switch {
	case left < -1:
		left = 0
	case left == -1 && o.Limit >= 0:
		left = o.Limit
	case left == -1:
		return
	}
	reset := on(o.Reset)
	if reset <= v || reset-v > credible {
		return
	}
	if v < a.reset {
		if left > a.left {
			return
		}
		reset = max(reset, a.reset)
	}
	a.left, a.reset, a.heard = min(left, most), reset, v
}

// shift moves what was announced along with a clock that went back.
func (a *told) shift(by int64) {
	for _, t := range []*int64{&a.until, &a.reset, &a.heard} {
		if *t != 0 {
			*t = max(*t+by, 0)
		}
	}
	if a.reset == 0 {
		a.left, a.heard = 0, 0
	}
	a.past.move(by)
}

func (a *told) append(b *encoder) {
	b.int(a.until)
	b.int(a.reset)
	b.int(a.left)
	b.int(a.heard)
	a.past.append(b)
}

func (a *told) read(d *decoder, last int64) {
	a.until = d.time(last + credible)
	a.reset = d.time(last + credible)
	a.left = d.between(-most, most)
	a.heard = d.time(last)
	if d.version > 1 {
		a.past.read(d, last)
	}
	if a.reset == 0 && (a.left != 0 || a.heard != 0) || a.heard > a.reset {
		d.fail()
	}
}
