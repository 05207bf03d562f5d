package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// TestABucketOfOneUnitIsNotTakenForALimitInFlight: two requests that are sent together are
// refused, but not because both are in flight.
func TestABucketOfOneUnitIsNotTakenForALimitInFlight(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{10, 20, 40} {
		for _, clients := range []int{2, 8, 64} {
			s := search{origin: &drip{limit: 1, rate: rate}, clients: clients, latency: .1, count: int(100 * rate)}
			r := s.do()
			ideal := 100 * max(1, rate*s.latency/float64(clients))
			if r.took > 1.6*ideal || r.refused > 20+clients { // those in flight when the first is refused may all be
				t.Errorf("%v a second, %d clients: %.2f × ideal, %d refused", rate, clients, r.took/ideal, r.refused)
			}
		}
	}
}

// TestRequestsInFlightAtTheFirstRefusalCount: the meter is made by a refusal, when others are
// in flight.
func TestRequestsInFlightAtTheFirstRefusalCount(t *testing.T) {
	t.Parallel()
	p := NewHiddenRate(History{Accepted: 100, Lasted: 2 * time.Second})
	sent, now := seconds(10), seconds(10.1)
	p.Refused(now, Refusal{Sent: sent, Level: 9, Concurrency: true})
	if p.atOnce.limit != 8 {
		t.Fatalf("%d in flight are allowed", p.atOnce.limit)
	}
}

// TestRequestsThatTheMeterDoesNotKnowHoldOthers: the meter does not see when they end, so a request that goes at once may be
// refused, too.
func TestRequestsThatTheMeterDoesNotKnowHoldOthers(t *testing.T) {
	t.Parallel()
	p := NewHiddenRate(History{Accepted: 100, Lasted: 2 * time.Second})
	now := seconds(10.1)
	_, alone := p.Refused(now, Refusal{Sent: seconds(10), Level: 9, Concurrency: true})
	if at, _ := p.When(now, 1); alone || at.Sub(now) < time.Second/2 {
		t.Fatalf("the next request goes after %s; the refusal says nothing of others: %t", at.Sub(now), alone)
	}
	now = seconds(12)
	for range 8 {
		p.Take(now, 1)
	}
	if _, alone = p.Refused(now, Refusal{Sent: now, Level: 8, Concurrency: true}); !alone {
		t.Fatal("the meter knows all that are in flight, and the refusal stops others all the same")
	}
}

// TestMoreInFlightAreTriedLessOftenAfterEachRefusal: what a try costs is known.
func TestMoreInFlightAreTriedLessOftenAfterEachRefusal(t *testing.T) {
	t.Parallel()
	a := atOnce{}
	a.refused(9)
	tries := 0
	for range 4000 {
		if a.succeeded(flying{level: a.limit, sure: a.limit}, second); a.limit > 8 {
			tries++
			a.refused(9)
		}
	}
	if a.limit != 8 || tries < 2 || tries > 4 {
		t.Errorf("%d tries, and %d may be in flight", tries, a.limit)
	}
}

// TestAnOutageSaysNothingOfTheNumberInFlight: all that are in flight when it begins are refused, and so is each single request
// after them. The number before goes on.
func TestAnOutageSaysNothingOfTheNumberInFlight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		known int64 // in flight
		since int   // successes since the first refusal
	}{{0, 0}, {0, 20}, {8, 20}} {
		p := NewHiddenRate(History{Accepted: 200, Lasted: 10 * time.Second})
		now := seconds(20)
		p.Refused(now, Refusal{Sent: now, Failure: true})
		p.atOnce.limit = c.known
		for range c.since {
			now = now.Add(time.Second)
			p.Take(now, 1)
			p.Done(now, now, 1, limit.Success)
		}
		began := now.Add(time.Second)
		refuse := func(n int) {
			sent := make([]time.Time, n)
			for i := range sent {
				now = now.Add(time.Millisecond)
				sent[i] = now
				p.Take(now, 1)
			}
			now = now.Add(50 * time.Millisecond)
			for _, at := range sent {
				p.Refused(now, Refusal{Sent: at, Failure: true})
				p.Done(now, at, 1, limit.Refused)
			}
		}
		for now = began; now.Sub(began) < time.Minute; {
			n := 0
			for at := now; !at.After(now) && n < 8; n++ {
				p.Take(now, 1)
				at, _ = p.When(now, 1)
			}
			for range n {
				p.Give(now, now, 1)
			}
			refuse(n)
			if at, _ := p.When(now, 1); at.After(now) {
				if f := p.Found(now); f.Left > 0 {
					t.Errorf("%d of %d are left in a pause of %s", f.Left, f.Limit, at.Sub(now))
				}
				now = at
			}
		}
		p.Take(now, 1)
		p.Done(now.Add(50*time.Millisecond), now, 1, limit.Success)
		if f := p.Found(now); f.Limit != c.known {
			t.Errorf("%d in flight may be after an outage, and %d before, after %d successes", f.Limit, c.known, c.since)
		}
	}
}
