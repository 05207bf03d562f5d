package lease_test

import (
	"math/rand"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

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
