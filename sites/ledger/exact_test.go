package ledger

import (
	"testing"

	"github.com/abide-proxy/abide/limit/learn"
)

// pointsOrigin is a window in which each request takes another number of units.
type pointsOrigin struct {
	fixedOrigin
	cost func() float64
}

func (o *pointsOrigin) arrive(at float64) reply {
	n := o.cost()
	fits := !o.begun || at >= o.start+o.window || o.used+n <= o.limit
	if !fits {
		used := o.used
		o.used = o.limit
		r := o.fixedOrigin.arrive(at)
		o.used = used
		r.left = o.limit - used
		return r
	}
	r := o.fixedOrigin.arrive(at)
	o.used += n - 1
	r.left = o.limit - o.used
	return r
}

// TestPointsOfManyClientsAreUsedToTheFull: an answer gives back the part of the reserved units that its
// request has not cost. 32 clients once used a third of each window.
func TestPointsOfManyClientsAreUsedToTheFull(t *testing.T) {
	t.Parallel()
	for _, unit := range []learn.Unit{learn.Requests, learn.Points, learn.Tokens} {
		for _, flying := range []int{8, 32, 64} {
			for _, slow := range []float64{0.1, 1} {
				random := dice(3)
				o := &pointsOrigin{fixedOrigin: fixedOrigin{limit: 1500, window: 30, relative: true, resolution: 1, rounding: "ceil"}}
				o.cost = func() float64 { return []float64{1, 1, 10, 10, 50}[random.IntN(5)] }
				s := run{origin: o, meter: New(Options{Unit: unit}), begin: 123.37, flying: flying, fastest: slow / 10, slowest: slow, length: 300, waiting: flying, random: dice(1)}
				if r := s.do(); r.refused > 0 || o.share() < 0.95 {
					t.Errorf("%s, %d clients, up to %v s: %d of %d refused, %.2f used: %v", unit, flying, slow, r.refused, r.sent, o.share(), o.windows)
				}
			}
		}
	}
}

// TestCallsThatCostTheSameUseTheWholeBudget: a request is expected to cost as much as those before, if they
// cost the same. Of 1,000 tokens in 20 s and calls of 100, a third was used once.
func TestCallsThatCostTheSameUseTheWholeBudget(t *testing.T) {
	t.Parallel()
	for _, flying := range []int{1, 8, 32} {
		for _, slow := range []float64{0.2, 1} {
			o := &pointsOrigin{fixedOrigin: fixedOrigin{limit: 1000, window: 20, relative: true, resolution: 1, rounding: "ceil"}}
			o.cost = func() float64 { return 100 }
			s := run{origin: o, meter: New(Options{Unit: learn.Tokens}), begin: 123.37, flying: flying, fastest: slow / 2, slowest: slow, length: 400, waiting: flying, random: dice(1)}
			if r := s.do(); r.refused > 0 || o.share() < 0.95 {
				t.Errorf("%d clients, up to %v s: %d of %d refused, %.2f used: %v", flying, slow, r.refused, r.sent, o.share(), o.windows)
			}
		}
	}
}
