package ledger

import (
	"fmt"
	"math"
	"testing"
)

// TestALedgerUsesEveryWindowAndIsNeverRefused: alone, whatever way the windows are
// announced, and however many requests are in flight for however long.
func TestALedgerUsesEveryWindowAndIsNeverRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]func() *fixedOrigin{
		"epoch, first request": func() *fixedOrigin { return &fixedOrigin{limit: 300, window: 900, resolution: 1} },
		"epoch, aligned":       func() *fixedOrigin { return &fixedOrigin{limit: 300, window: 60, aligned: true, resolution: 1} },
		"epoch, rounded up":    func() *fixedOrigin { return &fixedOrigin{limit: 100, window: 60, resolution: 1, ceil: true} },
		"epoch, behind":        func() *fixedOrigin { return &fixedOrigin{limit: 100, window: 60, resolution: 1, skew: -1.9} },
		"epoch, ahead":         func() *fixedOrigin { return &fixedOrigin{limit: 100, window: 60, resolution: 1, skew: 1.9} },
		"delta": func() *fixedOrigin {
			return &fixedOrigin{limit: 75, window: 600, aligned: true, relative: true, resolution: 1}
		},
		"delta, rounded up": func() *fixedOrigin {
			return &fixedOrigin{limit: 75, window: 60, relative: true, resolution: 1, ceil: true}
		},
		"exact delta":   func() *fixedOrigin { return &fixedOrigin{limit: 50, window: 60, relative: true} },
		"by the minute": func() *fixedOrigin { return &fixedOrigin{limit: 500, window: 3600, aligned: true, resolution: 60} },
		"short":         func() *fixedOrigin { return &fixedOrigin{limit: 5, window: 5, relative: true} },
		"short, whole seconds": func() *fixedOrigin {
			return &fixedOrigin{limit: 20, window: 10, relative: true, resolution: 1, ceil: true}
		},
		"no reset":        func() *fixedOrigin { return &fixedOrigin{limit: 100, window: 120, quiet: true, length: true} },
		"short, no reset": func() *fixedOrigin { return &fixedOrigin{limit: 20, window: 1, quiet: true, length: true} },
		"one":             func() *fixedOrigin { return &fixedOrigin{limit: 1, window: 60, relative: true, resolution: 1} },
	}
	for name, make := range cases {
		for _, flying := range []int{1, 3, 12, 100} {
			for _, slow := range []float64{0.05, 0.5, 2} {
				o := make()
				s := run{
					origin: o, meter: New(Options{}), flying: flying, fastest: min(0.05, slow/2), slowest: slow,
					length: 12 * o.window, random: dice(1),
				}
				r := s.do()
				name := fmt.Sprintf("%s, %d in flight, up to %v s", name, flying, slow)
				if r.refused > 0 {
					t.Errorf("%s: %d refused of %d, at %.2f", name, r.refused, r.sent, r.refusals[0])
				}
				// One request after the other is not always fast enough.
				can := float64(flying) / (slow/2 + 0.03) * (o.window - 4 - 2*slow)
				if u := o.share() + s.lost(); u < 0.98 && can > o.limit*1.5 {
					t.Errorf("%s: %.1f%% used %v", name, 100*u, o.windows)
				}
				if r.higher > 0 || r.foreign > 0 {
					t.Errorf("%s: higher %d, foreign %d", name, r.higher, r.foreign)
				}
			}
		}
	}
}

// TestALedgerRunsAtTheRateOfABucket: it is not stopped until the bucket is full.
func TestALedgerRunsAtTheRateOfABucket(t *testing.T) {
	t.Parallel()
	cases := map[string]func() *drip{
		"exact":          func() *drip { return &drip{limit: 100, rate: 100.0 / 60} },
		"whole seconds":  func() *drip { return &drip{limit: 100, rate: 100.0 / 60, resolution: 1} },
		"large":          func() *drip { return &drip{limit: 5000, rate: 5000.0 / 60} },
		"epoch":          func() *drip { return &drip{limit: 800, rate: 800.0 / 60, resolution: 1, absolute: true} },
		"says its rate":  func() *drip { return &drip{limit: 40, rate: 2, mute: true, saysRate: true} },
		"few and slowly": func() *drip { return &drip{limit: 5, rate: 0.1} },
	}
	for name, make := range cases {
		for _, flying := range []int{1, 12, 100} {
			for _, slow := range []float64{0.05, 0.5, 2} {
				o := make()
				l := New(Options{})
				s := run{
					origin: o, meter: l, flying: flying, fastest: min(0.05, slow/2), slowest: slow,
					length: 20 * o.limit / o.rate, random: dice(2),
				}
				r := s.do()
				name := fmt.Sprintf("%s, %d in flight, up to %v s", name, flying, slow)
				if r.refused > 0 {
					t.Errorf("%s: %d refused of %d, at %.2f", name, r.refused, r.sent, r.refusals[0])
				}
				all := o.limit + o.rate*s.length
				if can := float64(flying) / (slow/2 + 0.03); float64(r.served) < 0.98*all && can > 1.5*o.rate {
					t.Errorf("%s: %.1f%% used; %+v rate %v of %v", name, 100*float64(r.served)/all, l.Status(seconds(s.length)), l.allowance.refill.rate, o.rate)
				}
				if fills, window := o.limit/o.rate, l.Status(seconds(s.length)).Window.Seconds(); l.allowance.refillsContinuously() && math.Abs(window-fills) > fills/10 {
					t.Errorf("%s: it is said to fill in %.1f s, it does in %.1f", name, window, fills)
				}
				if r.foreign > 0 {
					t.Errorf("%s: foreign %d", name, r.foreign)
				}
			}
		}
	}
}

// TestARollingWindowOfAnnouncedLengthIsUsedFromTheSecondOn: what was answered within the
// length is known, when the first response after it tells that the window rolls.
func TestARollingWindowOfAnnouncedLengthIsUsedFromTheSecondOn(t *testing.T) {
	t.Parallel()
	for _, flying := range []int{1, 8, 64} {
		o := &rolling{limit: 100, window: 10, said: func(r *reply) { r.window = 10 }}
		s := run{origin: o, meter: New(Options{}), begin: 100, length: 100, flying: flying, fastest: .045, slowest: .055, random: dice(0)}
		if r := s.do(); r.refused > 0 || r.served < 940 {
			t.Errorf("%d in flight: %d served of 1000, %d refused", flying, r.served, r.refused)
		}
	}
}

// TestARollingWindowWhoseResetIsThatOfItsOldestIsRecognised: at that time one unit comes back,
// and another reset follows.
func TestARollingWindowWhoseResetIsThatOfItsOldestIsRecognised(t *testing.T) {
	t.Parallel()
	for _, amount := range []float64{30, 200} {
		for _, flying := range []int{1, 8, 64} {
			o := &rolling{limit: amount, window: 15}
			o.said = func(r *reply) {
				r.limit, r.left, r.reset = amount, amount-float64(len(o.times)), o.times[0]+o.window
			}
			s := run{origin: o, meter: New(Options{}), begin: 100, length: 300, flying: flying, fastest: .045, slowest: .055, random: dice(0)}
			if r := s.do(); r.refused > 1 || float64(r.served) < 0.9*20*amount {
				t.Errorf("%v, %d in flight: %d served of %v, %d refused", amount, flying, r.served, 20*amount, r.refused)
			}
		}
	}
}
