package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/store"
)

// A request that comes before the store has said who is there need not wait for others
// to say what they hold: they have.
func TestAnAbideThatJoinsAFleetIsServedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(nil)
		first := newCounter(t, memory, true, "first", perMinute, lease.Strict)
		defer first.stop()
		elapse(store.Settling + time.Second)
		s := &trouble{Store: memory}
		s.slow.Store(int64(20 * time.Millisecond))
		joins := newCounter(t, s, true, "joins", perMinute, lease.Strict)
		defer joins.stop()
		if sent, waited := joins.take("site.test", 2*time.Second); !sent || waited > 100*time.Millisecond {
			t.Errorf("sent: %v, after %v", sent, waited)
		}
	})
}
