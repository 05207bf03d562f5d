package lease_test

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

// Half of a fleet has ended, and with it what it had leased. Then the store loses all: what
// the ended half had spent stays spent, since the other half has heard of it.
func TestWhatEndedInstancesHaveSpentStaysSpentWhenTheStoreLosesIt(t *testing.T) {
	for name, lose := range map[string]func(*reference.Store){
		"a key":      func(m *reference.Store) { m.Evict("api.example") },
		"everything": (*reference.Store).Lose,
	} {
		t.Run(name, func(t *testing.T) {
			const amount = 200
			f := fleet.New(fleet.Options{
				Seed:    5,
				Network: fleet.Network{Timeout: time.Second},
				Budgets: []fleet.Budget{{Key: "requests", Spec: limit.Spec{As: limit.Quota, Amount: amount, Period: limit.Day}, Outage: lease.Strict}},
			})
			memory := reference.New(f.Now)
			f.Store = memory
			f.Start(4)
			f.Run(2 * store.RecoveryTime)
			for range 30 {
				for i := range 4 {
					f.Request(i, fleet.Need{"requests": 1})
				}
				f.Run(time.Second)
			}
			f.Run(10 * time.Second)
			f.Crash(0)
			f.Crash(1)
			for range 3 { // by which the others hear what counts
				f.Request(2, fleet.Need{"requests": 1})
				f.Request(3, fleet.Need{"requests": 1})
				f.Run(5 * time.Second)
			}
			before := f.Count.Requests
			lose(memory)
			for range 60 {
				for i := range 4 {
					f.Request(i, fleet.Need{"requests": 1})
				}
				f.Run(time.Second)
			}
			f.Run(time.Minute)
			if n := f.Count.Requests; n > amount || n < amount*9/10 {
				t.Errorf("%d of %d were spent, %d of them before the loss", n, amount, before)
			}
		})
	}
}
