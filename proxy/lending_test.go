package proxy

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// Who had nothing to do while the store was away wants nothing either until the others
// have said what they took meanwhile, and the log says how much that was.
func TestWhatWasLentIsTakenOffWhatOthersGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(nil)
		a, b := &trouble{Store: memory}, &trouble{Store: memory}
		one, two := newCounter(t, a, true, "one", perMinute, lease.Share), newCounter(t, b, true, "two", perMinute, lease.Share)
		one.desk.lending.measure = func(outage string, units int64) {
			if outage != "share" {
				t.Error(outage)
			}
			one.lent += units
		}
		elapse(store.Settling + 2*time.Second)
		if ok, _ := one.take("site.test", time.Second); !ok {
			t.Fatal("it does not go")
		}
		a.fails.Store(true)
		b.fails.Store(true)
		elapse(time.Minute)
		sent := 0
		for range 100 {
			if ok, _ := one.take("site.test", 100*time.Millisecond); ok {
				sent++
			}
		}
		if sent != 50 {
			t.Errorf("%d went of the half of 100", sent)
		}
		a.slow.Store(int64(700 * time.Millisecond)) // and is the last to come back
		a.fails.Store(false)
		b.fails.Store(false)
		for two.desk.status().Err != "" {
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
		one.stop()
		two.stop()
		text := one.desk.log.Out.(*syncBuffer).String()
		if one.lent != 50 || strings.Count(text, "lent ") != 1 || !strings.Contains(text, "lent 50 of 100 (requests at site.test) while the store was away for ") {
			t.Errorf("%d were told of: %s", one.lent, text)
		}
	})
}

// A budget whose key is removed is said again at once by all who hold some of it, whether
// or not they have anything to ask.
func TestABudgetThatIsLostIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(nil)
		one, two := newCounter(t, memory, true, "one", perMinute, lease.Share), newCounter(t, memory, true, "two", perMinute, lease.Share)
		elapse(store.Settling + 2*time.Second)
		sent := 0
		for range 60 {
			if ok, _ := one.take("site.test", time.Second); ok {
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
		for _, c := range []*counter{one, two, three} {
			c.stop()
		}
		if text := one.desk.log.Out.(*syncBuffer).String(); strings.Count(text, "the store has lost budgets of site.test") != 1 {
			t.Errorf("the log is told: %s", text)
		}
	})
}

// The clock of a store is in the status, and the log is told when it is set.
func TestTheStoresClockIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		memory := store.NewMemory(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) })
		c := newCounter(t, memory, true, "one", perMinute, lease.Strict)
		elapse(store.Settling + 2*time.Second)
		c.take("site.test", time.Second)
		offset.Store(int64(-15 * time.Second))
		for range 50 {
			c.take("site.test", time.Second)
			elapse(100 * time.Millisecond)
		}
		if is := c.desk.status().Clock; is == nil || *is != -15*time.Second {
			t.Errorf("%v", is)
		}
		c.stop()
		text := c.desk.log.Out.(*syncBuffer).String()
		if strings.Count(text, "the store's clock was set by -1") != 1 || strings.Count(text, "behind what its limits have seen") != 1 {
			t.Error(text)
		}
	})
}

// Who is refused while the store is away is told that, and not that the limit is used up.
func TestWhoIsRefusedWhileTheStoreIsAwayIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Strict)
		elapse(store.Settling + time.Second)
		if ok, _ := c.take("site.test", time.Second); !ok {
			t.Fatal("nothing goes")
		}
		s.fails.Store(true)
		elapse(70 * time.Second) // and what was leased is over
		ask := func(r queue.Request) queue.Reason {
			t.Helper()
			r.Site, r.Limits = "site.test", [][]queue.Limit{{c.need}}
			_, err := c.gate.Wait(t.Context(), r)
			var no *queue.Refusal
			if !errors.As(err, &no) {
				t.Fatalf("got %v", err)
			}
			return no.Reason
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
		var no *queue.Refusal
		if !errors.As(err, &no) || no.Reason != queue.Away {
			t.Errorf("who does not wait for the limit is told %v", err)
		}
		c.stop()
	})
}
