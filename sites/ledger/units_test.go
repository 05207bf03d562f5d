package ledger

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/abide-proxy/abide/limit/learn"
)

// costly is a bucket of which each request takes another amount.
type costly struct {
	drip
	cost  func() float64
	over  int     // refused
	taken float64 // by the others
}

func (o *costly) arrive(at float64) reply {
	n := o.cost()
	o.level = min(o.limit, o.level+(at-o.at)*o.rate)
	if !o.begun {
		o.level, o.begun = o.limit, true
	}
	o.at = at
	r := silentReply()
	r.limit = o.limit
	if o.level < n {
		r.refused, r.retryIn = true, (n-o.level)/o.rate
		o.over++
	} else {
		o.level -= n
		o.taken += n
	}
	r.left = math.Floor(o.level)
	r.resetIn = (o.limit - o.level) / o.rate
	return r
}

// A language model counts tokens: what a request takes is learned, and little is
// refused or left.
func TestWhatARequestCostsIsLearned(t *testing.T) {
	t.Parallel()
	for _, flying := range []int{1, 10, 50} {
		random := rand.New(rand.NewPCG(1, 2))
		var sum float64
		o := &costly{drip: drip{limit: 60_000, rate: 1000}}
		o.cost = func() float64 { return 200 + 400*random.Float64() }
		l := New(Options{Unit: learn.Tokens})
		s := run{origin: o, meter: l, flying: flying, fastest: 0.05, slowest: 0.5, length: 1800, random: dice(5)}
		r := s.do()
		sum = float64(r.served) * 400
		if share := sum / (o.limit + o.rate*s.length); share < 0.9 && float64(flying)/0.3*400 > 1.5*o.rate {
			t.Errorf("%d in flight: %.1f%% used, cost %.0f", flying, 100*share, l.allowance.cost.each)
		}
		if r.refused*200 > r.sent {
			t.Errorf("%d in flight: %d of %d refused, cost %.0f", flying, r.refused, r.sent, l.allowance.cost.each)
		}
		if l.allowance.cost.each < 400 || l.allowance.cost.each > 900 {
			t.Errorf("a request is thought to cost %.0f", l.allowance.cost.each)
		}
	}
}

// Costs that vary by five are never far wrong, though the first requests of a new
// ledger may all go at once and nobody knows what they take.
func TestCostsThatVaryAreNotUnderestimated(t *testing.T) {
	t.Parallel()
	for _, flying := range []int{1, 10, 100} {
		for _, slow := range []float64{0.05, 0.5, 2} {
			for seed := range uint64(8) {
				random := rand.New(rand.NewPCG(seed, 2))
				o := &costly{drip: drip{limit: 40_000, rate: 40_000. / 60}}
				taken := 0.0
				o.cost = func() float64 { return 200 + float64(random.IntN(801)) }
				l := New(Options{Unit: learn.Tokens})
				s := run{origin: o, meter: l, flying: flying, fastest: 0.8 * slow, slowest: 1.2 * slow, length: 600, random: dice(seed)}
				r := s.do()
				taken = o.taken
				if r.refused*100 > r.sent {
					t.Errorf("%d in flight, %v s, %d: %d of %d refused at %v, cost %.0f", flying, slow, seed, r.refused, r.sent, r.refusals[0], l.allowance.cost.each)
				}
				if share := taken / (o.limit + o.rate*s.length); share < 0.97 && float64(flying)/slow*600 > 1.5*o.rate {
					t.Errorf("%d in flight, %v s, %d: %.1f%% used, cost %.0f", flying, slow, seed, 100*share, l.allowance.cost.each)
				}
			}
		}
	}
}

// A request that counts twice is taken for two when that is sure.
func TestRequestsThatCountTwiceAreCountedTwice(t *testing.T) {
	t.Parallel()
	for _, flying := range []int{1, 4} {
		o := &fixedOrigin{limit: 200, window: 60, relative: true}
		l := New(Options{})
		s := run{origin: twice{o}, meter: l, flying: flying, fastest: 0.05, slowest: 0.1, length: 600, random: dice(5)}
		r := s.do()
		if l.allowance.cost.each != 2 {
			t.Errorf("%d in flight: a request is thought to cost %v", flying, l.allowance.cost.each)
		}
		if r.refused > 10*flying {
			t.Errorf("%d of %d refused", r.refused, r.sent)
		}
		if u := o.share(); u < 0.98 {
			t.Errorf("%.1f%% used", 100*u)
		}
	}
}

type twice struct{ o *fixedOrigin }

func (o twice) arrive(at float64) reply {
	if r := o.o.arrive(at); r.refused {
		return r
	}
	return o.o.arrive(at)
}

// A share that is used, of nobody knows what.
func TestAPercentageIsUsedUp(t *testing.T) {
	t.Parallel()
	o := &percent{fixedOrigin{limit: 1000, window: 600, relative: true}}
	l := New(Options{Unit: learn.Percent})
	s := run{origin: o, meter: l, flying: 5, fastest: 0.1, slowest: 0.4, length: 3600, random: dice(5)}
	r := s.do()
	if u := o.share(); u < 0.9 || r.refused > 12 {
		t.Errorf("%.1f%% used, %d refused, a request is thought to cost %v", 100*u, r.refused, l.allowance.cost.each)
	}
}

type percent struct{ fixedOrigin }

func (o *percent) arrive(at float64) reply {
	r := o.fixedOrigin.arrive(at)
	r.used, r.limit, r.left = math.Ceil(100-r.left/10), -1, -1
	return r
}

// A request that is thought to cost all that a bucket has waits until it is full. What it costs is known then, too.
func TestACostOfAWholeBucketIsNotBelievedForever(t *testing.T) {
	t.Parallel()
	o := &costly{drip: drip{limit: 3000, rate: 1500}, cost: func() float64 { return 600 }}
	l := New(Options{Unit: learn.Tokens})
	s := run{origin: o, meter: l, flying: 8, fastest: 0.09, slowest: 0.11, length: 20, random: dice(3)}
	s.do()
	l.allowance.cost.begin()
	l.allowance.cost.each, l.allowance.cost.mean, l.allowance.cost.peak = o.limit, o.limit, o.limit
	s.begin, s.length = 20, 60
	if r := s.do(); float64(r.served)*600 < 0.9*o.rate*s.length {
		t.Errorf("%d requests are served in %v s, and one is thought to cost %.0f", r.served, s.length, l.allowance.cost.each)
	}
}
