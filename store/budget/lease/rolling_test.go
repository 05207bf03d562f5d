package lease_test

import (
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

// A rolling limit of which a third is used holds nobody up where its slots meet: of a
// hundred requests 99 wait for two answers of the store at most.
func TestARollingLimitThatIsFarHoldsNobodyUp(t *testing.T) {
	const way = 800 * time.Microsecond // of a message, at most
	for _, c := range []struct {
		instances int
		window    time.Duration
		lasts     time.Duration // a request
	}{
		{1, 5 * time.Second, 200 * time.Millisecond},
		{4, 5 * time.Second, 200 * time.Millisecond},
		{100, 5 * time.Second, 200 * time.Millisecond},
		{4, time.Minute, 200 * time.Millisecond},
		{12, time.Minute, 200 * time.Millisecond},
		{100, time.Minute, 200 * time.Millisecond},
		{12, 15 * time.Minute, 2 * time.Second},
	} {
		var began time.Time
		var waits []time.Duration
		perSecond := 16 / c.lasts.Seconds()
		r := fleet.Sessions{
			Options: fleet.Options{
				Seed: 5,
				Network: fleet.Network{Delay: func(r *rand.Rand) time.Duration {
					return 300*time.Microsecond + time.Duration(r.Int63n(int64(way-300*time.Microsecond)))
				}},
				Budgets: []fleet.Budget{{Key: "requests", Outage: lease.Strict, Spec: limit.Spec{
					As: limit.Rolling, Amount: int64(perSecond * c.window.Seconds() / 0.3), Window: c.window,
				}}},
				Taken: func(take fleet.Take) {
					if began.IsZero() {
						began = take.At
					}
					if take.At.Sub(began) > time.Second { // a store that is new settles at first
						waits = append(waits, take.Waited)
					}
				},
			},
			Store:     func(now func() time.Time) store.Store { return reference.New(now) },
			Instances: c.instances, Key: "requests", Lasts: c.lasts, Windows: 1,
		}.Run()
		slices.Sort(waits)
		most, far := waits[len(waits)-1], waits[len(waits)*99/100]
		t.Logf("%d instances, %v: %.0f %% used, %.3f exchanges a request, p99 %v, longest %v", c.instances, c.window, 100*r.Utilisation, r.PerRequest, far, most)
		if r.Utilisation < 0.2 || far > 4*way || most > 250*time.Millisecond {
			t.Errorf("%d instances, %v: %.0f %% used, p99 %v, longest %v", c.instances, c.window, 100*r.Utilisation, far, most)
		}
	}
}

// A slot of a short window may be over when the answer comes that grants something of it.
// Whoever needs one unit now and then gets it all the same, soon.
func TestASlowStoreGrantsWhatCanStillBeUsed(t *testing.T) {
	for _, delay := range []time.Duration{0, 20 * time.Millisecond, 75 * time.Millisecond, 100 * time.Millisecond} {
		for _, window := range []time.Duration{3 * time.Second, 10 * time.Second, time.Minute} {
			var waited time.Duration
			taken := 0
			f := fleet.New(fleet.Options{
				Seed:    3,
				Network: fleet.Network{Delay: func(*rand.Rand) time.Duration { return delay }, Timeout: 2 * time.Second},
				Budgets: []fleet.Budget{{Key: "requests", Spec: limit.Spec{As: limit.Rolling, Amount: 20, Window: window}, Outage: lease.Strict}},
				Taken: func(take fleet.Take) {
					taken++
					waited = max(waited, take.Waited)
				},
			})
			f.Store = reference.New(f.Now)
			f.Start(1)
			f.Run(2 * store.RecoveryTime)
			const requests = 30
			every := max(1201*time.Millisecond, window/15)
			for range requests {
				f.Request(0, fleet.Need{"requests": 1})
				f.Run(every)
			}
			f.Run(time.Second)
			if taken != requests || waited > 4*delay+600*time.Millisecond {
				t.Errorf("%v each way, 20 per %v: %d of %d went, the slowest after %v", delay, window, taken, requests, waited)
			}
		}
	}
}
