package ledger

import (
	"fmt"
	"testing"
)

// TestLimitsThatSayLittleAreLearned: without a reset, or with one that is not when
// they are whole again. What has to be found out by refusals is found out by few,
// and none are left when it is.
func TestLimitsThatSayLittleAreLearned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make    func() origin
		rate    float64
		length  float64
		least   float64 // share used
		refused int     // while learning
	}{
		"only what is left, and when to retry": {func() origin { return &fixedOrigin{limit: 60, window: 60, quiet: true, retry: true} }, 1, 1800, 0.95, 1},
		"only what is left":                    {func() origin { return &fixedOrigin{limit: 60, window: 60, quiet: true} }, 1, 1800, 0.8, 8},
		"a bucket, and only what is left":      {func() origin { return &drip{limit: 40, rate: 2, mute: true} }, 2, 2400, 0.98, 0},
		"a reset that moves":                   {func() origin { return &rolling{limit: 100, window: 60, said: func(r *reply) { r.resetIn = 60 }} }, 100.0 / 60, 1800, 0.95, 0},
		"a rolling window of a known length":   {func() origin { return &rolling{limit: 100, window: 30, said: func(r *reply) { r.window = 30 }} }, 100.0 / 30, 1800, 0.9, 0},
		"only a policy": {func() origin {
			return &rolling{limit: 100, window: 60, said: func(r *reply) { r.window, r.left = 60, -1 }}
		}, 100.0 / 60, 1800, 0.95, 0},
		"a reset that does not refill": {func() origin { return &counter{limit: 100, window: 60} }, 100.0 / 60, 3600, 0.85, 20},
		"a second, said in whole seconds": {func() origin {
			return &fixedOrigin{limit: 20, window: 1, aligned: true, relative: true, resolution: 1, ceil: true, length: true}
		}, 20, 600, 0.45, 10}, // as long as the way there and back, so that no answer says which it is of
	} {
		for _, flying := range []int{10, 100} {
			for _, slow := range []float64{0.1, 1} {
				name := fmt.Sprintf("%s, %d in flight, up to %v s", name, flying, slow)
				l := New(Options{})
				s := run{origin: c.make(), meter: l, flying: flying, fastest: slow / 5, slowest: slow, length: c.length, random: dice(2)}
				r := s.do()
				if u := float64(r.served) / (c.rate * c.length); u < c.least {
					t.Errorf("%s: %.1f%% used, kind %v", name, 100*u, kinds[l.allowance.kind])
				}
				late := 0
				for _, at := range r.refusals {
					if at > s.length/2 {
						late++
					}
				}
				if r.refused > c.refused || late > c.refused/2 {
					t.Errorf("%s: %d of %d refused, %d in the second half", name, r.refused, r.sent, late)
				}
				if r.higher > 0 || r.foreign > 0 {
					t.Errorf("%s: higher %d, foreign %d", name, r.higher, r.foreign)
				}
			}
		}
	}
}
