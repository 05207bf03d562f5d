package budget

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

// silent is a store whose news nobody hears.
type silent struct{ store.Store }

// A cooldown in the answer that brings a lease holds for what waits for the lease.
func TestACooldownIsHeardBeforeTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := reference.New(nil)
		c := newCounter(t, silent{memory}, true, "one", perMinute, lease.Share)
		defer c.stop()
		c.heard = func(site string, news []store.Note) {
			for _, n := range news {
				c.gate.Cool(site, queue.Scope{}, n.Until, n.Text)
			}
		}
		elapse(store.RecoveryTime + time.Second)
		_, err := memory.Exchange(t.Context(), []store.Batch{{Site: "site.test", Instance: "two", Notes: []store.Note{
			{Key: "cool" + store.Separator + store.Separator, Until: time.Now().Add(30 * time.Second), Text: "429"},
		}}})
		must(t, err)
		began := time.Now()
		p, err := c.gate.Wait(t.Context(), queue.Request{Site: "site.test", Limits: [][]queue.Limit{{c.need}}})
		must(t, err)
		p.Sent()
		p.Finish(queue.Result{Outcome: limit.Success})
		if waited := time.Since(began); waited < 30*time.Second {
			t.Errorf("it goes after %v", waited)
		}
	})
}

// News bring what there is to know, so they cost the store nothing, however many hear them.
func TestNewsCostNoExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := reference.New(nil)
		var asked []*tallied
		for i := range 4 {
			s := &tallied{Store: memory}
			c := newCounter(t, s, true, fmt.Sprint(i), perMinute, lease.Share)
			defer c.stop()
			c.heard = func(site string, news []store.Note) { s.heard.Add(int64(len(news))) }
			elapse(store.RecoveryTime + time.Second)
			c.take("site.test", time.Second)
			asked = append(asked, s)
		}
		elapse(30 * time.Second)
		for _, s := range asked {
			s.exchanges.Store(0)
		}
		_, err := memory.Exchange(t.Context(), []store.Batch{{Site: "site.test", Instance: "other", Notes: []store.Note{
			{Key: "cool" + store.Separator + store.Separator, Until: time.Now().Add(30 * time.Second), Text: "429"},
		}}})
		must(t, err)
		elapse(time.Second)
		for i, s := range asked {
			if asks, heard := s.exchanges.Load(), s.heard.Load(); asks != 0 || heard != 1 {
				t.Errorf("%d hears %d notes, and asks %d times", i, heard, asks)
			}
		}
	})
}

// tallied is a store that counts what it is asked.
type tallied struct {
	*reference.Store
	exchanges, heard atomic.Int64
}

func (s *tallied) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	s.exchanges.Add(1)
	return s.Store.Exchange(ctx, batches)
}
