package ledger

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"pgregory.net/rapid"
)

// elsewhen is an origin by another clock.
type elsewhen struct {
	origin
	by float64 // how far the clock is ahead of the origin's
}

func (o elsewhen) arrive(at float64) reply {
	r := o.origin.arrive(at - o.by)
	if r.reset > 0 {
		r.reset += o.by
	}
	return r
}

// resumed is a ledger that another process has left, at a time by a clock that was set
// meanwhile, and the run that goes on with it.
func resumed(t *rapid.T, s *run, away, jump float64) *run {
	var state []byte
	s.do()
	state = s.meter.State()
	n := *s
	n.meter = New(Options{})
	n.begin += s.length + away + jump
	n.origin = elsewhen{s.origin, jump}
	if err := n.meter.Restore(seconds(n.begin), state); err != nil {
		t.Fatal(err)
	}
	return &n
}

// Whether a process comes back at once or hours later, and whatever became of the clock
// meanwhile: what is refused is no more than what was tried to see how it stands, and
// it goes on after a window at most.
func TestARestoredLedgerNeitherBurstsNorStalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := float64(rapid.IntRange(5, 200).Draw(t, "limit"))
		window := float64(rapid.SampledFrom([]int{60, 300, 900}).Draw(t, "window"))
		var o origin
		switch rapid.IntRange(0, 1).Draw(t, "kind") {
		case 0:
			o = &fixedOrigin{
				limit: limit, window: window, resolution: 1, retry: true,
				aligned: rapid.Bool().Draw(t, "aligned"), relative: rapid.Bool().Draw(t, "relative"),
			}
		case 1:
			o = &drip{limit: limit, rate: limit / window, resolution: 1, absolute: rapid.Bool().Draw(t, "absolute")}
		}
		s := &run{origin: o, meter: New(Options{}), begin: 200_000, length: window * rapid.Float64Range(0.05, 4).Draw(t, "lives")}
		travel(t, s)
		s.slowest, s.fastest = s.slowest/2, s.fastest/2
		away := rapid.SampledFrom([]float64{0, 1, 20, 7200, 100_000}).Draw(t, "away")
		jump := rapid.SampledFrom([]float64{0, 0, 3600, -3600, -86_400, 86_400, -10, 10}).Draw(t, "jump")
		n := resumed(t, s, away, jump)
		n.length = 3 * window
		r := n.do()
		if r.refused > 4 { // after a jump of the clock the first windows end up to ten seconds later than they seem to
			t.Fatalf("%d of %d refused, at %v", r.refused, r.sent, r.refusals)
		}
		if r.foreign > 0 || r.higher > 0 {
			t.Fatalf("foreign %d, higher %d", r.foreign, r.higher)
		}
		if first := math.Inf(1); len(r.times) == 0 || min(first, r.times[0])-n.begin > window+10+2*s.each() {
			t.Fatalf("it stalls: %v, from %v", r.times, n.begin)
		}
		if all := min(limit, (n.length-window)*float64(s.flying)/s.each()/2); float64(r.served) < all {
			t.Fatalf("%d served in three windows of %v", r.served, limit)
		}
	})
}

// What a hidden limit was found to allow is gone on with, and what was refused is
// waited for no longer than it would have been.
func TestAPaceIsRestored(t *testing.T) {
	t.Parallel()
	for _, jump := range []float64{0, 3600, -3600, -86_400} {
		p := NewHiddenRate(History{Accepted: 100, Lasted: 10 * time.Second})
		now := seconds(100)
		p.Refused(now, Refusal{Sent: now, RetryAt: seconds(160)})
		for away, wait := range map[float64]float64{0: 60, 20: 40, 7200: 0} {
			n := NewHiddenRate(History{})
			at := 100 + away + jump
			if err := n.Restore(seconds(at), p.State()); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%v s later, by a clock that jumped %v s", away, jump)
			until, _ := n.When(seconds(at), 1)
			got := until.Sub(seconds(at)).Seconds()
			if late := max(wait, 60); got < 0 || got > late || jump == 0 && got != wait {
				t.Errorf("%s: it waits for %v s, not %v", name, got, wait)
			}
			if n.Rate() != p.Rate() {
				t.Errorf("%s: the rate is %v, not %v", name, n.Rate(), p.Rate())
			}
		}
	}
}

// TestARestartWhileASiteRefuses: the refusals of before are not counted since 1970, which once made
// a rate of one request an hour.
func TestARestartWhileASiteRefuses(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Second, 2 * time.Minute} {
		now := time.Unix(1764227205, 0)
		step := func(p *HiddenRate, o limit.Outcome) {
			at, ok := p.When(now, 1)
			if !ok || at.Equal(limit.Unknown) {
				t.Fatal("no request goes")
			}
			if at.After(now) {
				now = at
			}
			sent := now
			p.Take(sent, 1)
			if now = now.Add(50 * time.Millisecond); o == limit.Refused {
				p.Refused(now, Refusal{Sent: sent})
			}
			p.Done(now, sent, 1, o)
		}
		p := NewHiddenRate(History{Accepted: 20, Lasted: time.Second})
		step(p, limit.Refused)
		step(p, limit.Refused)
		state := p.State()
		p = NewHiddenRate(History{})
		now = now.Add(idle)
		if err := p.Restore(now, state); err != nil {
			t.Fatal(err)
		}
		now = now.Add(idle)
		for range 30 {
			step(p, limit.Success)
		}
		step(p, limit.Refused)
		step(p, limit.Refused)
		for range 3 {
			step(p, limit.Success)
		}
		if rate := p.Rate(); rate < 0.05 {
			t.Errorf("after %v without requests, twice, 30 requests and two refusals make %.4f requests a second", idle, rate)
		}
	}
}

// TestANumberAtOnceIsKnownAfterARestart: it is told in place of an estimated rate that lets more go, and more are tried no sooner.
func TestANumberAtOnceIsKnownAfterARestart(t *testing.T) {
	t.Parallel()
	p := NewHiddenRate(History{Accepted: 20, Lasted: 3 * time.Second})
	p.search.set(p.at(seconds(0)), 7)
	p.atOnce = atOnce{limit: 4, fails: 2, after: tryAfter(2), latency: second * 6 / 10}
	kept := NewHiddenRate(History{})
	if err := kept.Restore(seconds(1), p.State()); err != nil {
		t.Fatal(err)
	}
	if before, after := p.Found(seconds(1)), kept.Found(seconds(2)); after != before || after.Limit != 4 || after.Window != 0 {
		t.Errorf("%+v, and %+v after a restart", before, after)
	}
	kept.atOnce.succeeded(flying{level: 4, sure: 4}, second)
	if kept.atOnce.limit != 4 {
		t.Errorf("%d are tried after one success", kept.atOnce.limit)
	}
}

// TestTheLengthOfWindowsIsKnownAfterARestart: a crawl of a few windows, once more a minute or a day later, does not lose
// time and units again to find it, nor more than one request where the server has other windows by then.
func TestTheLengthOfWindowsIsKnownAfterARestart(t *testing.T) {
	t.Parallel()
	for i, away := range []float64{60, 60, 86_400, 86_400} {
		o := &fixedOrigin{limit: 30, window: 8, resolution: 1, dated: true, ceil: true}
		if o.relative = i%2 > 0; o.relative {
			o.ceil, o.rounding = false, "round"
		}
		s := run{origin: o, meter: New(Options{}), begin: 123.37, flying: 8, fastest: 0.04, slowest: 0.06, length: 38, waiting: 8, random: dice(1)}
		lost := 0
		for crawl := range 4 {
			o.begins = nil
			if crawl == 3 {
				o.window, s.length = 12, 60
			}
			r, p := s.do(), &s.meter.(*Ledger).allowance.phase
			took := (o.begins[len(o.begins)-1] - o.begins[0]) / float64(len(o.begins)-1)
			switch {
			case crawl == 0 && (took < 8.2 || p.lost == 0):
				t.Errorf("seconds left: %v: the first crawl has windows of %.2f s, %d units lost, so this test shows nothing", o.relative, took, p.lost)
			case crawl > 0 && crawl < 3 && (took > 8.15 || p.lost > lost || r.refused > 0):
				t.Errorf("seconds left: %v, %v s later: windows of %.2f s, units lost %d, then %d, %d refused", o.relative, away, took, lost, p.lost, r.refused)
			case r.refused > 1:
				t.Errorf("seconds left: %v: of longer windows %d are refused", o.relative, r.refused)
			}
			lost = p.lost
			state := s.meter.State()
			s.meter, s.begin = New(Options{}), s.begin+s.length+away
			if err := s.meter.Restore(seconds(s.begin), state); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTheMeasuredLengthIsShownAfterARestart: windows of a clock of 6 s, whose announced ends would also fit windows of 5 s that
// begin with their first request.
func TestTheMeasuredLengthIsShownAfterARestart(t *testing.T) {
	t.Parallel()
	o := &fixedOrigin{limit: 30, window: 6, aligned: true, resolution: 1, dated: true, ceil: true}
	s := run{origin: o, meter: New(Options{}), begin: 123.37, flying: 4, fastest: 0.04, slowest: 0.06, length: 28, waiting: 4, random: dice(1)}
	s.do()
	for range 3 {
		if shown := s.meter.(*Ledger).allowance.window.shown(); shown != 6*second {
			t.Fatalf("windows of 6 s are shown as %d ns", shown)
		}
		state := s.meter.State()
		s.meter = New(Options{})
		if err := s.meter.Restore(seconds(s.begin+s.length+1), state); err != nil {
			t.Fatal(err)
		}
	}
}
