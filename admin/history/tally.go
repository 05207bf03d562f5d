package history

import (
	"sync"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/store"
)

// tally finds how much the counts of sites have grown since the last call. The zero value
// has seen no counts.
type tally struct {
	seen map[string]metrics.SiteCount
	// owed are counts of removed sites that the site other does not have yet.
	owed metrics.SiteCount
}

// since is the growth since the last call. A site that was removed to make room has added
// its counts to the site other; a site that has come back since counts from 0.
func (t *tally) since(now []metrics.SiteCount) []store.Traffic {
	seen := make(map[string]metrics.SiteCount, len(now))
	for _, one := range now {
		seen[one.Name] = one
	}
	var list []store.Traffic
	moved := t.owed
	for name, before := range t.seen {
		if siteCount, there := seen[name]; name != store.Others && (!there || hasDecreased(before, siteCount)) {
			moved.Requests += before.Requests
			moved.In += before.In
			moved.Out += before.Out
		}
	}
	t.owed = metrics.SiteCount{}
	for _, one := range now {
		before := t.seen[one.Name]
		switch {
		case one.Name == store.Others:
			before.Requests += moved.Requests
			before.In += moved.In
			before.Out += moved.Out
			moved = metrics.SiteCount{}
			t.owed = metrics.SiteCount{Requests: subtract(before.Requests, one.Requests), In: subtract(before.In, one.In), Out: subtract(before.Out, one.Out)}
		case hasDecreased(before, one):
			before = metrics.SiteCount{}
		}
		fresh := store.Traffic{
			Site: one.Name, In: int64(subtract(one.In, before.In)), Out: int64(subtract(one.Out, before.Out)),
			Requests: int64(subtract(one.Requests, before.Requests)),
		}
		if fresh.In+fresh.Out+fresh.Requests > 0 {
			list = append(list, fresh)
		}
	}
	if moved != (metrics.SiteCount{}) { // the site other does not exist yet
		t.owed = moved
	}
	t.seen = seen
	return list
}

// hasDecreased tells whether a site counts less than before: it was removed and has come
// back.
func hasDecreased(before, now metrics.SiteCount) bool {
	return now.Requests < before.Requests || now.In < before.In || now.Out < before.Out
}

// subtract is a − b, but at least 0.
func subtract(a, b uint64) uint64 { return a - min(a, b) }

// blockedKey names the limit of a site whose blocked times are added up.
type blockedKey struct{ site, limit string }

// blockedGrowth finds how much the blocked times of limits have grown since the last call. The
// zero value has seen none.
type blockedGrowth struct{ seen map[blockedKey]queue.Blocked }

// since is the growth since the last call. A time that is less than before has begun again: its
// site was forgotten in between.
func (g *blockedGrowth) since(now []queue.Blocked) []store.Blocked {
	seen := make(map[blockedKey]queue.Blocked, len(now))
	var list []store.Blocked
	for _, one := range now {
		key := blockedKey{one.Site, one.Limit}
		seen[key] = one
		before := g.seen[key]
		if one.Seconds < before.Seconds || one.Busy < before.Busy {
			before = queue.Blocked{}
		}
		held, busy := one.Seconds-before.Seconds, one.Busy-before.Busy
		if held > 0 {
			list = append(list, store.Blocked{Site: one.Site, Limit: one.Limit, Held: seconds(held), Busy: seconds(busy)})
		}
	}
	g.seen = seen
	return list
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// counted sums up what is counted since the last full minute. The zero value is empty.
type counted struct {
	mu   sync.Mutex
	sums sums
}

func (c *counted) add(h store.History) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums.add(h)
}

// list returns the counts since the last call with take, which has them begin anew, as those of a minute.
func (c *counted) list(minute time.Time, take bool) store.History {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.sums.at(minute)
	if take {
		c.sums = sums{}
	}
	return h
}
