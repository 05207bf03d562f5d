package ledger

import "testing"

// Buckets that are full again within some travels of a request, and say when by another
// clock or to the second, so that it takes long to tell them from windows. Nothing is
// refused meanwhile.
func TestABucketThatMayBeAWindowIsNotEmptied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o                drip
		full             float64
		flying           int
		slowest, fastest float64
		seed             uint64
	}{
		"its resets move within what may be a window": {drip{limit: 5, resolution: 1}, 30, 5, 1.984375, 1.984375, 0},
		"it was not whole when its end had come":      {drip{limit: 7}, 30, 100, 1.5, 1.5, 0},
		"many at once":                                {drip{limit: 71, resolution: 1}, 30, 100, 1.875, 1.875, 0},
		"all were sent when it was nearly full":       {drip{limit: 100}, 144.5, 100, 1.99609375, 0.7407379150390625, 15},
		"its clock is behind":                         {drip{limit: 4, skew: -1.9}, 30, 2, 1.5, 1.5, 0},
	} {
		o := c.o
		o.absolute, o.rate = true, o.limit/c.full
		s := run{
			origin: &o, meter: New(Options{}), length: 12 * c.full, flying: c.flying, slowest: c.slowest, fastest: c.fastest,
			random: dice(c.seed),
		}
		if r := s.do(); r.refused > 0 || r.higher > 0 || r.foreign > 0 {
			t.Errorf("%s: %d of %d refused, at %v; higher %d, foreign %d", name, r.refused, r.sent, r.refusals, r.higher, r.foreign)
		}
	}
}

// A bucket that is full again after seconds, and says by a date in whole seconds when, is not taken for windows: its date moves on
// too often within too short a time.
func TestABucketThatIsSoonFullIsNotTakenForWindows(t *testing.T) {
	t.Parallel()
	for _, o := range []drip{{limit: 10, rate: 2}, {limit: 40, rate: 10}} {
		for _, flying := range []int{8, 32} {
			for _, slow := range []float64{0.02, 0.1} {
				o := o
				o.resolution, o.absolute, o.whole = 1, true, true
				s := run{origin: &o, meter: New(Options{}), flying: flying, fastest: 0.9 * slow, slowest: slow, length: 20 * o.limit / o.rate, random: dice(2)}
				r := s.do()
				if all := o.limit + o.rate*s.length; float64(r.served) < 0.95*all || r.refused > 0 {
					t.Errorf("%v with %v a second, %d in flight, answers in %v s: %d of %v served, %d refused", o.limit, o.rate, flying, slow, r.served, all, r.refused)
				}
			}
		}
	}
}
