package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

// bounded is a store that fails the test when it is asked without end.
type bounded struct {
	*reference.Store
	t     *testing.T
	calls int
}

func (s *bounded) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	if s.calls++; s.calls > 10_000 {
		s.t.Fatal("the instances ask without end")
	}
	return s.Store.Exchange(ctx, batches)
}

// A network without any delay: each instance hears of a loss before the next answer,
// and says again what it holds.
func TestALossIsToldOnceWithoutADelay(t *testing.T) {
	const instances = 16
	f := fleet.New(fleet.Options{
		Network: fleet.Network{Timeout: time.Second},
		Budgets: []fleet.Budget{{Key: "requests", Spec: limit.Spec{As: limit.Fixed, Amount: 300, Window: 10 * time.Second}, Outage: lease.Strict}},
	})
	memory := reference.New(f.Now)
	f.Store = &bounded{Store: memory, t: t}
	f.Start(instances)
	for range 40 {
		for i := range instances {
			f.Request(i, fleet.Need{"requests": 1})
		}
		if f.Run(500 * time.Millisecond); f.Now().Second() == 8 {
			memory.Evict("api.example")
		}
	}
	f.Run(20 * time.Second)
	for i := range instances {
		if n := f.Waiting(i); n > 0 {
			t.Errorf("%d requests of instance %d still wait", n, i)
		}
	}
}
