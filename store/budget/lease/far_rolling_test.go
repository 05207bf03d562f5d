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
