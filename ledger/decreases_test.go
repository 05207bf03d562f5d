package ledger

import (
	"math/rand/v2"
	"testing"
)

// priced is a server with windows, of which each request takes another amount.
type priced struct {
	fixedOrigin
	cost func() float64
}

func (o *priced) arrive(at float64) reply {
	one := o.fixedOrigin
	n := o.cost()
	r := o.fixedOrigin.arrive(at)
	switch {
	case r.refused:
		return r
	case o.used-1+n > o.limit: // it costs more than is left
		o.fixedOrigin.used = one.used
		if o.start != one.start {
			o.fixedOrigin.used = 0
		}
		r.refused, r.left = true, o.limit-o.used
		return r
	}
	o.used += n - 1
	r.left = o.limit - o.used
	return r
}

// TestGitHubGraphQLPointsAreNeverRefused: a request costs 1 to 50 of 5000 points, which are
// announced as if they were requests.
func TestGitHubGraphQLPointsAreNeverRefused(t *testing.T) {
	t.Parallel()
	for _, most := range []int{3, 10, 50} {
		for _, flying := range []int{1, 8, 64} {
			for _, slow := range []float64{0.05, 0.5} {
				for seed := range uint64(6) {
					random := rand.New(rand.NewPCG(seed, 3))
					o := &priced{fixedOrigin: fixedOrigin{limit: 5000, window: 3600, grain: 1}}
					o.cost = func() float64 { return float64(1 + random.IntN(most)) }
					s := run{origin: o, meter: New(Options{}), begin: 7.3, flying: flying, fastest: slow / 2, slowest: slow, length: 5 * 3600, random: dice(seed)}
					r := s.do()
					if r.refused > 0 {
						t.Errorf("up to %d points, %d in flight, %v s, %d: %d of %d refused, the first at %v", most, flying, slow, seed, r.refused, r.sent, r.refusals[0])
					}
					if u := o.share(); u < 0.97 {
						t.Errorf("up to %d points, %d in flight, %v s, %d: %.1f%% used", most, flying, slow, seed, 100*u)
					}
				}
			}
		}
	}
}

// TestNeighboursTellTheCostOfARequest is for responses in any order.
func TestNeighboursTellTheCostOfARequest(t *testing.T) {
	t.Parallel()
	var d decreases
	d.add(announcedLeft{10, 93, 1}, 10) // 7 or more
	d.add(announcedLeft{20, 60, 1}, 12) // one that was sent at 12 may be counted before
	if d.highest() != 0 {
		t.Fatalf("a cost of %v, though a response is missing", d.highest())
	}
	d.add(announcedLeft{21, 90, 1}, 21)
	if d.peak != 30 || d.count != 2 || !d.vary() {
		t.Fatalf("%+v", d)
	}
	d.interrupt()
	d.add(announcedLeft{30, 10, 1}, 30)
	if d.peak != 30 {
		t.Fatalf("a cost of %v of more than one request", d.peak)
	}
	d.next()
	if d.highest() != 30 {
		t.Fatal("it is forgotten with the window")
	}
}

// TestTheUseOfAnotherClientIsNoCost, if it is little.
func TestTheUseOfAnotherClientIsNoCost(t *testing.T) {
	t.Parallel()
	o := &fixedOrigin{limit: 1000, window: 60, grain: 1, aligned: true}
	l := New(Options{})
	s := run{origin: o, meter: l, flying: 4, fastest: 0.05, slowest: 0.2, length: 600, foreign: 2, random: dice(4)}
	if r := s.do(); l.cost.each != 1 || r.foreign == 0 {
		t.Errorf("a request is thought to cost %v; %d of others", l.cost.each, r.foreign)
	}
}
