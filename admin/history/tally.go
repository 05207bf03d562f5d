package history

import (
	"sync"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// tally finds how much the counts of sites have grown since the last call. The zero value
// has seen no counts.
type tally struct{ seen map[string]metrics.SiteCount }

// since is the growth since the last call. A site that was removed to make room has added
// its counts to the site other; a site that has come back since counts from 0.
func (t *tally) since(now []metrics.SiteCount) (list []store.Row) {
	seen := make(map[string]metrics.SiteCount, len(now))
	for _, one := range now {
		seen[one.Name] = one
	}
	var moved status.Counts
	for name, before := range t.seen {
		if siteCount, there := seen[name]; name != store.Others && (!there || hasDecreased(before.Counts, siteCount.Counts)) {
			moved.Add(before.Counts)
		}
	}
	for _, one := range now {
		before := t.seen[one.Name].Counts
		switch {
		case one.Name == store.Others:
			before.Add(moved)
		case hasDecreased(before, one.Counts):
			before = status.Counts{}
		}
		if fresh := one.Since(before); fresh.Bytes()+fresh.Requests > 0 {
			list = append(list, store.Row{Site: one.Name, In: int64(fresh.In), Out: int64(fresh.Out), Requests: int64(fresh.Requests)})
		}
	}
	t.seen = seen
	return list
}

// hasDecreased tells whether a site counts less than before: it was removed and has come
// back.
func hasDecreased(before, now status.Counts) bool {
	return now.Requests < before.Requests || now.In < before.In || now.Out < before.Out
}

// blockedKey names the limit of a site whose blocked times are added up.
type blockedKey struct{ site, limit string }

// blockedSince returns how long limits have held requests since the last call.
func (r *Recorder) blockedSince() (list []store.Row) {
	now := map[blockedKey]metrics.Sums{}
	for _, one := range answer(r.options.Blocked) {
		now[blockedKey{one.Site, one.Limit}] = metrics.Sums{one.Seconds, one.Busy}
	}
	for of, grown := range r.growth.Since(now) {
		if grown[0]+grown[1] > 0 {
			list = append(list, store.Row{Site: of.site, Limit: of.limit, Held: status.DurationOf(grown[0]), Busy: status.DurationOf(grown[1])})
		}
	}
	return list
}

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
