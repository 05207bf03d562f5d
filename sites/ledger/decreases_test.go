package ledger

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// priced is a server with windows, of which each request takes another amount.
type priced struct {
	fixedOrigin
	cost func() float64
}

func (o *priced) arrive(at float64) reply {
	fixedOrigin := o.fixedOrigin
	n := o.cost()
	r := o.fixedOrigin.arrive(at)
	switch {
	case r.refused:
		return r
	case o.used-1+n > o.limit: // it costs more than is left
		o.fixedOrigin.used = fixedOrigin.used
		if o.start != fixedOrigin.start {
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
					o := &priced{fixedOrigin: fixedOrigin{limit: 5000, window: 3600, resolution: 1}}
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
	d.add(announcedLeft{10, 93, 1}, 10, d.settle) // 7 or more
	d.add(announcedLeft{20, 60, 1}, 12, d.settle) // one that was sent at 12 may be counted before
	if d.highest() != 0 {
		t.Fatalf("a cost of %v, though a response is missing", d.highest())
	}
	d.add(announcedLeft{21, 90, 1}, 21, d.settle)
	if d.peak != 30 || d.count != 2 || !d.vary() {
		t.Fatalf("%+v", d)
	}
	d.interrupt()
	d.add(announcedLeft{30, 10, 1}, 30, d.settle)
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
	o := &fixedOrigin{limit: 1000, window: 60, resolution: 1, aligned: true}
	l := New(Options{})
	s := run{origin: o, meter: l, flying: 4, fastest: 0.05, slowest: 0.2, length: 600, foreign: 2, random: dice(4)}
	if r := s.do(); l.allowance.cost.each != 1 || r.foreign == 0 {
		t.Errorf("a request is thought to cost %v; %d of others", l.allowance.cost.each, r.foreign)
	}
}

// TestCostsThatVaryLaterAreSeen, after many requests of one unit each.
func TestCostsThatVaryLaterAreSeen(t *testing.T) {
	t.Parallel()
	for _, flying := range []int{1, 8, 64} {
		random := rand.New(rand.NewPCG(1, 3))
		o, n := &priced{fixedOrigin: fixedOrigin{limit: 5000, window: 3600, resolution: 1}}, 0
		o.cost = func() float64 {
			if n++; n < 1000 {
				return 1
			}
			return float64(1 + random.IntN(20))
		}
		s := run{origin: o, meter: New(Options{}), begin: 7.3, flying: flying, fastest: 0.05, slowest: 0.1, length: 4 * 3600, random: dice(1)}
		if r := s.do(); r.refused > 0 || o.share() < 0.97 {
			t.Errorf("%d in flight: %d of %d refused, %.1f%% used", flying, r.refused, r.sent, 100*o.share())
		}
	}
}

// crawl sends 40 requests, one after the other, of which each takes another amount, every
// so many seconds.
func crawl(l *Ledger, every float64) {
	left := 1000.0
	for n := range 40 {
		left -= float64(1 + n%7)
		at := 100 + float64(n)*every
		sent, heard := seconds(at), seconds(at+.05)
		l.Take(sent, 1)
		r := silentReply()
		r.limit, r.left, r.reset, r.resolution = 1000, left, 3600, 1
		l.Update(heard, Answer{Sent: sent, Units: 1, Limit: r.said(heard)})
		l.Done(heard, sent, 1, limit.Success)
	}
}

// TestWhatIsUsedDuringAPauseIsNoCost: others may use units while nothing is sent.
func TestWhatIsUsedDuringAPauseIsNoCost(t *testing.T) {
	t.Parallel()
	for every, varies := range map[float64]bool{.1: true, 10: false} {
		l := New(Options{})
		if crawl(l, every); l.allowance.cost.varies != varies {
			t.Errorf("a request every %v s: costs vary is %v, up to %v", every, l.allowance.cost.varies, l.allowance.cost.each)
		}
	}
}

// TestWindowsOfPointsFollowEachOther: their end, announced in whole seconds, is found as that of windows of requests. What
// requests cost is no use of others.
func TestWindowsOfPointsFollowEachOther(t *testing.T) {
	t.Parallel()
	const window, amount = 5., 100.
	d, opened, left, windows := newDriver(t, Options{}), math.Inf(-1), 0., 0
	for n := 0; windows < 20; n++ {
		for d.wait() != 0 {
			d.v += .01
		}
		if d.v >= opened+window {
			opened, left, windows = d.v, amount, windows+1
		}
		cost := 1 + 9*float64(n%2)
		if left < cost {
			t.Fatalf("a request of %v points is sent at %.2f, %.2f after the begin of a window with %v left", cost, d.v, d.v-opened, left)
		}
		left -= cost
		sent := d.send()
		d.v += .02
		said := d.says(amount, left, math.Ceil(opened+window-d.v))
		said.Resolution = time.Second
		d.hear(sent, said)
	}
	if d.v > 20*window*1.05 {
		t.Errorf("20 windows of %v s take %.1f s", window, d.v)
	}
	if s := d.m.(*Ledger).Status(d.now()); s.Foreign > 0 {
		t.Errorf("%d points are said to be used by others", s.Foreign)
	}
}

// TestAFleetCountsEachRequestAsOne: what other instances use looks like a cost, and a fleet
// divides a limit into requests.
func TestAFleetCountsEachRequestAsOne(t *testing.T) {
	t.Parallel()
	l := New(Options{})
	l.Share(wholeBudget{}, nil)
	if crawl(l, .1); l.allowance.cost.varies || l.allowance.cost.each != 1 {
		t.Errorf("a request is thought to cost up to %v", l.allowance.cost.each)
	}
}

// TestWhatOthersUseIsNoCostOnceTheyAreKnown: another process has begun before it was known.
func TestWhatOthersUseIsNoCostOnceTheyAreKnown(t *testing.T) {
	t.Parallel()
	l, together := New(Options{}), false
	l.Share(wholeBudget{}, func() bool { return together })
	if crawl(l, .1); !l.allowance.cost.varies {
		t.Fatal("alone, what requests cost is not learned")
	}
	together = true
	d := driver{t: t, m: l, v: 105}
	d.hear(d.send(), d.says(1000, 700, 3495))
	if c := &l.allowance.cost; c.varies || c.each != 1 {
		t.Errorf("a request is thought to cost up to %v", c.each)
	}
}

// TestWhatOtherInstancesUseIsNotSaidToBeOfOthers: before the first window of a fleet is known, nothing tells what other
// instances use from what clients outside of the fleet use.
func TestWhatOtherInstancesUseIsNotSaidToBeOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget   Budget
		together func() bool
	}{"no other can come": {}, "none is there": {wholeBudget{}, func() bool { return false }}, "a fleet": {budget: wholeBudget{}}} {
		d := newDriver(t, Options{})
		d.m.(*Ledger).Share(c.budget, c.together)
		for _, left := range []float64{99, 98, 97, 96, 80, 79, 78, 77, 60, 59} { // too few cost more than one for a cost that varies
			d.hear(d.send(), d.says(100, left, 600-d.v))
			d.v += 0.1
		}
		if s := d.m.(*Ledger).Status(d.now()); (s.Foreign > 0) != (name != "a fleet") {
			t.Errorf("%s: %d are used by others", name, s.Foreign)
		}
	}
}

// TestWhoFindsNothingLeftOfASharedWindowWaitsForTheNext: no answer tells of the present window yet, and other instances
// have taken all of it. The budget of the next begins long before that of this one has any again.
func TestWhoFindsNothingLeftOfASharedWindowWaitsForTheNext(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.hear(d.send(), d.says(20, 19, 5))
	l := d.m.(*Ledger)
	l.Share(spentBudget{}, nil)
	l.allowance.window.period = 40 * second
	d.v = 1
	d.waits(4, 8)
	d.v = 20
	d.waits(24, 26)
	d.v = 70
	d.waits(14, 16)
}

// spentBudget is a fleet's budget of which others have taken all.
type spentBudget struct{ wholeBudget }

func (spentBudget) When(now time.Time, _ int64) (time.Time, bool) {
	return now.Add(192 * time.Second), true
}

// wholeBudget is a fleet's budget of which nobody else takes.
type wholeBudget struct{}

func (wholeBudget) When(now time.Time, _ int64) (time.Time, bool)                 { return now, true }
func (wholeBudget) Take(time.Time, int64)                                         {}
func (wholeBudget) Give(time.Time, time.Time, int64)                              {}
func (wholeBudget) Demand(time.Time, int64)                                       {}
func (wholeBudget) Asks(time.Time, int64) bool                                    { return false }
func (wholeBudget) Window(time.Time, int64, int64, time.Duration) (outside int64) { return 0 }
func (wholeBudget) Left(time.Time) int64                                          { return 100 }
func (wholeBudget) OthersUse() bool                                               { return true }
func (wholeBudget) Said(time.Time, int64, int64, bool)                            {}

// TestSeveralCountersAreNoCosts: routes that are thought to be under one limit may each have
// one of their own.
func TestSeveralCountersAreNoCosts(t *testing.T) {
	t.Parallel()
	var d decreases
	left, wrong := []float64{100, 90, 60}, 0
	for n := range int64(60) {
		of := n * n % 7 % 3 // in no order
		left[of]--
		if d.add(announcedLeft{10 * n, left[of], 1}, 10*n+1, d.settle); d.vary() {
			wrong++
		}
	}
	if wrong > 6 {
		t.Errorf("costs vary after %d of 60 responses", wrong)
	}
}
