package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// hush is an origin that only refuses.
type hush struct{ origin }

func (o hush) arrive(at float64) reply {
	r := silentReply()
	r.refused = o.origin.arrive(at).refused
	return r
}

// TestAHiddenRateIsFound: in the steady state fewer than one of 500 requests is
// refused and the rate is used to within an eighth; and refusals become fewer.
func TestAHiddenRateIsFound(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.5, 3, 50} {
		origins := map[string]func() origin{
			"bucket, a second":  func() origin { return &drip{limit: max(2*rate, 2), rate: rate} },
			"bucket, a minute":  func() origin { return &drip{limit: 60 * rate, rate: rate} },
			"fixed, a minute":   func() origin { return &fixedOrigin{limit: 60 * rate, window: 60, aligned: true} },
			"rolling, a minute": func() origin { return &rolling{limit: 60 * rate, window: 60} },
			"fixed, shorter":    func() origin { return &fixedOrigin{limit: max(20, 10*rate), window: max(20/rate, 10)} },
			"rolling, shorter":  func() origin { return &rolling{limit: max(20, 10*rate), window: max(20/rate, 10)} },
		}
		for name, make := range origins {
			for _, recent := range []float64{0, 3 * rate} {
				p := NewHiddenRate(History{Accepted: int64(recent * 10), Lasted: 10 * time.Second})
				now := seconds(0)
				p.Refused(now, Refusal{Sent: now})
				s := run{
					origin: hush{make()}, meter: p, flying: 200, fastest: 0.05, slowest: 1,
					length: 24_000/rate + 3600*2, random: dice(3),
				}
				s.hear = func(now, sent time.Time, r reply) {
					if r.refused {
						p.Refused(now, Refusal{Sent: sent})
					}
				}
				r := s.do()
				name := fmt.Sprintf("%s, %v a second, from %v", name, rate, recent)
				half := s.length / 2
				served, refused, before := 0, 0, 0
				for _, at := range r.times {
					if at > half {
						served++
					}
				}
				for _, at := range r.refusals {
					if at > half {
						refused++
					} else {
						before++
					}
				}
				if float64(served) < 0.87*rate*half {
					t.Errorf("%s: %.1f%% of the rate", name, 100*float64(served)/(rate*half))
				}
				if float64(refused)*500 > float64(served) {
					t.Errorf("%s: one of %.0f refused", name, float64(served)/float64(refused))
				}
				if refused > before+20 {
					t.Errorf("%s: %d refused first, %d then", name, before, refused)
				}
			}
		}
	}
}

// TestTheRateBeforeAnOutageGoesOn: a site that fails soon after the beginning is not crawled slowly afterwards.
func TestTheRateBeforeAnOutageGoesOn(t *testing.T) {
	t.Parallel()
	p := NewHiddenRate(History{Accepted: 4, Lasted: time.Second})
	for _, at := range []float64{1, 2, 5, 13} {
		now := seconds(at)
		p.Take(now, 1)
		p.Refused(now, Refusal{Sent: now, Failure: true})
		p.Done(now, now, 1, limit.Refused)
	}
	now := seconds(25)
	p.Take(now, 1)
	p.Done(now, now, 1, limit.Success)
	if rate := p.Rate(); rate < 3.5 || rate > 5 {
		t.Errorf("%.2f a second after an outage, and 4 before", rate)
	}
}

// TestFailuresAfterAForgottenLimitDoNotStopTheSite: where other refusals have shown a limit, failures say nothing of the rate, and
// the time of a refusal that does is not known.
func TestFailuresAfterAForgottenLimitDoNotStopTheSite(t *testing.T) {
	t.Parallel()
	p := NewHiddenRate(History{Accepted: 40, Lasted: 10 * time.Second})
	p.at(seconds(0))
	p.told = true
	p.Forget(seconds(10))
	p.search.set(p.at(seconds(10)), 4)
	p.search.good, p.stop.outage = 4, true
	at := 10.0
	send := func(o limit.Outcome) {
		now := seconds(at)
		p.Take(now, 1)
		if o == limit.Refused {
			p.Refused(now, Refusal{Sent: now, Failure: true})
		}
		p.Done(now.Add(10*time.Millisecond), now, 1, o)
	}
	for round := range 4 {
		for range 40 {
			at += 0.25
			send(limit.Success)
		}
		for range 6 {
			at += 0.3
			send(limit.Refused)
		}
		at += 3
		send(limit.Success)
		if empty := p.clock.Last() - p.search.empty.last().empty; empty > 5*minute || p.Rate() < 0.5 {
			t.Fatalf("round %d: %.4f a second, and 4 before; nothing was left %v ago", round, p.Rate(), time.Duration(empty))
		}
	}
}

// TestAnOutageIsNoTimeThatRequestsNeed: while connections fail, no request can be accepted, so the next refusal does not
// tell that fewer are.
func TestAnOutageIsNoTimeThatRequestsNeed(t *testing.T) {
	t.Parallel()
	p := NewHiddenRate(History{Accepted: 10, Lasted: 2 * time.Second})
	send := func(at float64, o limit.Outcome) {
		now := seconds(at)
		p.Take(now, 1)
		if o == limit.Refused {
			p.Refused(now, Refusal{Sent: now})
		}
		p.Done(now, now, 1, o)
	}
	send(3, limit.Refused)
	send(3.1, limit.Refused)
	send(8, limit.Success)
	at := 8.0
	for range 20 {
		at += 0.5
		send(at, limit.Success)
	}
	before := p.Rate()
	for range 80 {
		at += 0.5
		send(at, limit.Failed)
	}
	for range 20 {
		at += 0.5
		send(at, limit.Success)
	}
	send(at+0.1, limit.Refused)
	send(at+1, limit.Success)
	if p.Rate() < before/2 {
		t.Errorf("%.2f a second, and %.2f before the outage", p.Rate(), before)
	}
}

// TestAServerThatMayHaveFailedIsAskedSoonAfterItIsBack: after a third of the time for which it was away, and each 30 s.
func TestAServerThatMayHaveFailedIsAskedSoonAfterItIsBack(t *testing.T) {
	t.Parallel()
	for away, most := range map[time.Duration]int{10 * time.Second: 12, time.Minute: 16, 5 * time.Minute: 24} {
		p := NewHiddenRate(History{Accepted: 200, Lasted: 10 * time.Second})
		began, asked := seconds(20), 0
		now := began
		for now.Sub(began) < away {
			p.Take(now, 1)
			p.Refused(now, Refusal{Sent: now, Failure: true})
			p.Done(now, now, 1, limit.Refused)
			now, _ = p.When(now, 1)
			asked++
		}
		if late := now.Sub(began) - away; late > min(away/3, 30*time.Second)+time.Second || asked > most {
			t.Errorf("away for %s: asked %s after the end, %d times before", away, late, asked)
		}
	}
}

// TestARefusalOfAnEarlyRequestSaysNothingOfTheRate: where the search has cost too much time, requests go at once. One that
// is refused then went sooner than at the rate, which stays.
func TestARefusalOfAnEarlyRequestSaysNothingOfTheRate(t *testing.T) {
	for name, c := range map[string]struct {
		hurries bool
		second  float64
		stays   bool
	}{
		"at the rate":      {false, 0.5, false},
		"at once":          {true, 0.02, true},
		"at once, but not": {true, 0.5, false},
	} {
		p := NewHiddenRate(History{})
		p.at(seconds(0))
		p.search.set(p.at(seconds(0.001)), 2)
		p.search.good, p.search.cycle, p.hurries, p.noise.limited = 2, second, c.hurries, true
		p.Take(seconds(1), 1)
		p.Done(seconds(1.01), seconds(1), 1, limit.Success)
		p.hurries = c.hurries
		p.Take(seconds(1+c.second), 1)
		p.Refused(seconds(1.01+c.second), Refusal{Sent: seconds(1 + c.second)})
		p.Done(seconds(1.01+c.second), seconds(1+c.second), 1, limit.Refused)
		at, _ := p.When(seconds(1.02+c.second), 1)
		p.Take(at, 1)
		p.Done(at.Add(time.Millisecond), at, 1, limit.Success)
		if stays := p.Rate() == 2; stays != c.stays {
			t.Errorf("%s: %v a second, of 2", name, p.Rate())
		}
	}
}
