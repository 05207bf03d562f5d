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
		Store:     func(now func() time.Time) store.Store { return reference.New(now) },
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

// Of a rolling limit nothing is used in the slot that has just ended, and of bytes nobody
// knows how large the next request is: both are used nearly as well, and asked for as rarely.
func TestRollingLimitsAndBytesAreUsedAndSeldomAskedFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		spec    limit.Spec
		bytes   bool
		atOnce  int
		windows int
		most    float64 // exchanges per request
		least   float64 // of the budget that is used
	}{
		{"rolling", limit.Spec{As: limit.Rolling, Amount: 3000, Window: time.Minute}, false, 4, 5, 0.33, 0.97},
		{"fixed, and ten times as many at once", limit.Spec{As: limit.Fixed, Amount: 3000, Window: time.Minute}, false, 40, 2, 0.4, 0.97},
		{"bytes", limit.Spec{As: limit.Fixed, Amount: 1_000_000, Window: time.Minute}, true, 4, 5, 0.8, 0.96},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessions(100, c.spec.Amount)
			s.Options.Budgets[0].Spec = c.spec
			s.AtOnce, s.Windows, s.Warm = c.atOnce, c.windows, 2
			if raced { // whether too much was used is seen in one window as well
				s.Windows, s.Warm = 1, 0
			}
			if c.bytes {
				rnd := rand.New(rand.NewSource(11))
				for range 1000 {
					s.Units = append(s.Units, fleet.Need{"requests": 2000 + rnd.Int63n(28_000)})
				}
			}
			var takes []fleet.Take
			s.Options.Taken = func(t fleet.Take) { takes = append(takes, t) }
			r := s.Run()
			t.Logf("%.1f %% used, %.2f exchanges per request", 100*r.Utilisation, r.PerRequest)
			if !raced && (r.Utilisation < c.least || r.PerRequest > c.most) {
				t.Errorf("%+v", r)
			}
			if wrong := over(c.spec, takes); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}
