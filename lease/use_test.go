package lease_test

import (
	"math/rand"
	"testing"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/lease/fleet"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

func sessions(instances int, amount int64) fleet.Sessions {
	return fleet.Sessions{
		Options: fleet.Options{
			Seed: 7, Begin: begin,
			Budgets: []fleet.Budget{{
				Key: "requests", Outage: lease.Strict,
				Spec: limit.Spec{As: limit.Fixed, Amount: amount, Window: time.Minute},
			}},
			Network: fleet.Network{Delay: func(r *rand.Rand) time.Duration {
				return 300*time.Microsecond + time.Duration(r.Int63n(int64(500*time.Microsecond)))
			}},
		},
		Store:     func(now func() time.Time) store.Store { return store.NewMemory(now) },
		Instances: instances, Key: "requests", Warm: 1, Windows: 5,
	}
}

func TestASaturatedBudgetIsUsed(t *testing.T) {
	for _, amount := range []int64{600, 3000} {
		for _, n := range []int{1, 4, 16, 100} {
			r := sessions(n, amount).Run()
			t.Logf("%4d of %d: %.1f %% used, worst %.1f %%, %.2f exchanges per request, waits %v, over %d",
				n, amount, 100*r.Utilisation, 100*r.Worst, r.PerRequest, r.Wait, r.Over)
			if r.Over > 0 || r.Utilisation < 0.97 || r.PerRequest > 0.5 {
				t.Errorf("%d instances: %+v", n, r)
			}
		}
	}
}
