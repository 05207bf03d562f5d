package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
	"github.com/abide-proxy/abide/proxy/shard"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// countingStore counts the calls of a store.
type countingStore struct {
	store.Store
	batches atomic.Int64
}

func (c *countingStore) Exchange(ctx context.Context, list []store.Batch) ([]store.Reply, error) {
	c.batches.Add(int64(len(list)))
	return c.Store.Exchange(ctx, list)
}

func TestWhoOwnsAHostAsksTheStoreSeldom(t *testing.T) {
	batches := func(yaml string) (n int64) {
		synctest.Test(t, func(t *testing.T) {
			shared := &countingStore{Store: reference.New(nil)}
			site := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }
			runFleet(t, 1, shared, site, yaml+"sites:\n  - {host: site.test, limits: [{requests: 900, per: 15m}]}\n", func(all []rig) {
				before := shared.batches.Load()
				for range 20 {
					all[0].Do(t.Context(), "GET", "http://site.test/x", "")
					elapse(40 * time.Second)
				}
				n = shared.batches.Load() - before
			})
		})
		return n
	}
	index := shard.Owner("site.test", 2)
	owner, anybody := batches(fmt.Sprintf("shard: {index: %d, of: 2, by: host}\n", index)), batches("")
	t.Logf("20 requests, one in 40 s: %d scripts of the owner, %d of anybody", owner, anybody)
	if owner > 5 || anybody > 20 {
		t.Errorf("20 requests, one in 40 s: %d scripts of the owner, %d of anybody", owner, anybody)
	}
}

func TestASiteIsOwnedThatIsOneHostOfTheShard(t *testing.T) {
	index := shard.Owner("site.test", 7)
	for _, c := range []struct {
		yaml string
		site string
		want bool
	}{
		{fmt.Sprintf("shard: {index: %d, of: 7, by: host}\n", index), "site.test", true},
		{fmt.Sprintf("shard: {index: %d, of: 7, by: host}\n", index), "site.test:8080", true},
		{fmt.Sprintf("shard: {index: %d, of: 7, by: host}\n", (index+1)%7), "site.test", false},
		{fmt.Sprintf("shard: {index: %d, of: 7}\n", index), "site.test", false}, // each URL has its own owner
		{"", "site.test", false},
		{fmt.Sprintf("shard: {index: %d, of: 7, by: host}\nsites:\n  - {host: '*.test', group: rule, name: site.test, limits: [{requests: 1, per: 1s}]}\n", index), "site.test", false},
	} {
		w := dispatchtest.Rig{T: t}
		if got := shard.OwnsSite(w.Load(c.yaml), c.site); got != c.want {
			t.Errorf("%q: %s is owned: %v", c.yaml, c.site, got)
		}
	}
}
