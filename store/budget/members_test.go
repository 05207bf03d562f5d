package budget

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

// A request that comes before the store has said who is there need not wait for others
// to say what they hold: they have.
func TestAnAbideThatJoinsAFleetIsServedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := reference.New(nil)
		first := newCounter(t, memory, true, "first", perMinute, lease.Strict)
		defer first.stop()
		elapse(store.RecoveryTime + time.Second)
		s := &reference.Unreliable{Store: memory}
		s.Delay.Store(int64(20 * time.Millisecond))
		joins := newCounter(t, s, true, "joins", perMinute, lease.Strict)
		defer joins.stop()
		if sent, waited := joins.take("site.test", 2*time.Second); !sent || waited > 100*time.Millisecond {
			t.Errorf("sent: %v, after %v", sent, waited)
		}
	})
}

// crowded is a store of a fleet of a size, which counts the pulses of one instance.
type crowded struct {
	store.Store
	members int
	pulses  atomic.Int64
	lasts   atomic.Int64
}

func (s *crowded) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	s.pulses.Add(1)
	s.lasts.Store(int64(m.Lifetime))
	p, err := s.Store.Pulse(ctx, m)
	p.Members = s.members
	return p, err
}

// Ten times as many instances say ten times less often that they are there, and count
// for ten times as long.
func TestALargeFleetHasSlowPulses(t *testing.T) {
	for _, c := range []struct {
		members int
		every   time.Duration
	}{{1, time.Second}, {1000, time.Second}, {10_000, 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := &crowded{Store: reference.New(nil), members: c.members}
			counter := newCounter(t, s, true, "one", perMinute, lease.Strict)
			defer counter.stop()
			elapse(c.every)
			s.pulses.Store(0)
			elapse(100 * c.every)
			if n := s.pulses.Load(); n < 90 || n > 112 {
				t.Errorf("%d members: %d pulses in %v", c.members, n, 100*c.every)
			}
			if lasts := time.Duration(s.lasts.Load()); lasts != 5*c.every {
				t.Errorf("%d members: each counts for %v", c.members, lasts)
			}
		})
	}
}

// listing is a store that says who is there, or cannot.
type listing struct {
	store.Store
	err   error
	asked int
}

func (s *listing) Members(ctx context.Context) ([]store.Member, error) {
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Members(ctx)
}

func TestMembersAreListedForWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &listing{Store: reference.New(nil)}
		counter := newCounter(t, s, true, "one", perMinute, lease.Strict)
		defer counter.stop()
		elapse(time.Minute)
		if s.asked != 0 {
			t.Errorf("nobody wants to know, and it is asked %d times", s.asked)
		}
		for range 10 {
			if list := counter.keeper.Members(t.Context()); len(list) != 1 || list[0].ID != "one" {
				t.Fatalf("got %v", list)
			}
		}
		s.err = errors.New("away")
		elapse(time.Minute)
		if list := counter.keeper.Members(t.Context()); len(list) != 1 || s.asked != 2 {
			t.Errorf("got %v, asked %d times", list, s.asked)
		}
	})
}
