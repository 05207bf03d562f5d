package budget

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

// Who had nothing to do while the store was away wants nothing either until the others
// have said what they took meanwhile, and the log says how much that was.
func TestWhatWasLentIsTakenOffWhatOthersGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := reference.New(nil)
		a, b := &reference.Unreliable{Store: memory}, &reference.Unreliable{Store: memory}
		counter, two := newCounter(t, a, true, "one", perMinute, lease.Share), newCounter(t, b, true, "two", perMinute, lease.Share)
		elapse(store.RecoveryTime + 2*time.Second)
		if ok, _ := counter.take("site.test", time.Second); !ok {
			t.Fatal("it does not go")
		}
		a.Fails.Store(true)
		b.Fails.Store(true)
		elapse(time.Minute)
		sent := 0
		for range 100 {
			if ok, _ := counter.take("site.test", 100*time.Millisecond); ok {
				sent++
			}
		}
		if sent != 50 {
			t.Errorf("%d went of the half of 100", sent)
		}
		a.Delay.Store(int64(700 * time.Millisecond)) // and is the last to come back
		a.Fails.Store(false)
		b.Fails.Store(false)
		for two.keeper.Status().Err != "" {
			elapse(10 * time.Millisecond)
		}
		for range 51 {
			if ok, _ := two.take("site.test", 5*time.Second); ok {
				sent++
			}
		}
		if sent != 100 {
			t.Errorf("%d of 100 went", sent)
		}
		counter.stop()
		two.stop()
		text := counter.logged()
		if len(counter.lent) != 1 || counter.lent["share"] != 50 || strings.Count(text, "lent ") != 1 || !strings.Contains(text, "lent 50 of 100 (requests at site.test) while the store was away for ") {
			t.Errorf("%v were told of: %s", counter.lent, text)
		}
	})
}

// A budget whose key is removed is said again at once by all who hold some of it, whether
// or not they have anything to ask.
func TestABudgetThatIsLostIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := reference.New(nil)
		item, two := newCounter(t, memory, true, "one", perMinute, lease.Share), newCounter(t, memory, true, "two", perMinute, lease.Share)
		elapse(store.RecoveryTime + 2*time.Second)
		sent := 0
		for range 60 {
			if ok, _ := item.take("site.test", time.Second); ok {
				sent++
			}
		}
		elapse(2 * time.Second)
		memory.Evict("site.test")
		three := newCounter(t, memory, true, "three", perMinute, lease.Share)
		for range 41 {
			if ok, _ := three.take("site.test", 5*time.Second); !ok {
				break
			}
			sent++
			if ok, _ := two.take("site.test", time.Millisecond); ok {
				sent++
			}
		}
		if sent != 100 {
			t.Errorf("%d of 100 went", sent)
		}
		for _, c := range []*counter{item, two, three} {
			c.stop()
		}
		if text := item.logged(); strings.Count(text, "the store has lost budgets of site.test") != 1 {
			t.Errorf("the log is told: %s", text)
		}
	})
}

// The clock of a store is in the status, and the log is told when it is set.
func TestTheStoresClockIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		memory := reference.New(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) })
		c := newCounter(t, memory, true, "one", perMinute, lease.Strict)
		elapse(store.RecoveryTime + 2*time.Second)
		c.take("site.test", time.Second)
		offset.Store(int64(-15 * time.Second))
		for range 50 {
			c.take("site.test", time.Second)
			elapse(100 * time.Millisecond)
		}
		if got := c.keeper.Status().Clock; got == nil || *got != -15*time.Second {
			t.Errorf("%v", got)
		}
		c.stop()
		text := c.logged()
		if strings.Count(text, "the store's clock was set by -1") != 1 || strings.Count(text, "behind what its limits have seen") != 1 {
			t.Error(text)
		}
	})
}

// Who is refused while the store is away is told that, and not that the limit is used up.
func TestWhoIsRefusedWhileTheStoreIsAwayIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Strict)
		elapse(store.RecoveryTime + time.Second)
		if ok, _ := c.take("site.test", time.Second); !ok {
			t.Fatal("nothing goes")
		}
		s.Fails.Store(true)
		elapse(70 * time.Second) // and what was leased is over
		ask := func(r queue.Request) queue.Reason {
			t.Helper()
			r.Site, r.Limits = "site.test", [][]queue.Limit{{c.need}}
			_, err := c.gate.Wait(t.Context(), r)
			var refusal *queue.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("got %v", err)
			}
			return refusal.Reason
		}
		ask(queue.Request{Wait: 3 * time.Second}) // it is found to be away
		refuses := c.need
		refuses.Refuse = true
		for name, is := range map[string]queue.Reason{
			"who goes now or not": ask(queue.Request{Now: true, Wait: time.Second}),
			"who waits":           ask(queue.Request{Wait: 2 * time.Second}),
		} {
			if is != queue.Away {
				t.Errorf("%s is told %q", name, is)
			}
		}
		e := c.gate.Explain(queue.Request{Site: "site.test", Limits: [][]queue.Limit{{c.need}}})
		if !e.Asks || !e.Until.IsZero() || len(e.Limits) != 1 || !e.Limits[0].Asks {
			t.Errorf("explained as %+v", e)
		}
		_, err := c.gate.Wait(t.Context(), queue.Request{Site: "site.test", Limits: [][]queue.Limit{{refuses}}})
		var refusal *queue.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != queue.Away {
			t.Errorf("who does not wait for the limit is told %v", err)
		}
		c.stop()
	})
}
