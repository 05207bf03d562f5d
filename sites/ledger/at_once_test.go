package ledger

import (
	"testing"
	"time"
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
		if a.succeeded(a.limit); a.limit > 8 {
			tries++
			a.refused(9)
		}
	}
	if a.limit != 8 || tries < 2 || tries > 4 {
		t.Errorf("%d tries, and %d may be in flight", tries, a.limit)
	}
}
