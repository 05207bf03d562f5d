package sites

import (
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/sites/routes"
)

const (
	// mostEvictedBytes bounds the memory of the states of a shard's evicted sites: 32 MiB
	// in all shards, or about 60,000 sites with one limit.
	mostEvictedBytes = 32 << 20 / shards
	// longestState bounds the state of an evicted site, in bytes.
	longestState = 16 << 10
	// stateOverhead is the approximate overhead of a state, in bytes.
	stateOverhead = 220
)

// evictedSites keeps the states of sites with limits that were evicted from Sites: a
// request to such a site must know its limits. The oldest are dropped first. It is not safe
// for concurrent use.
type evictedSites struct {
	states *simplelru.LRU[string, []byte] // :: site → state of its routes
	bytes  int
}

// keep saves the state of a site's routes, if there are limits.
func (l *evictedSites) keep(site string, item *Site) {
	item.mu.Lock()
	var state []byte
	if item.routes.Limited() {
		state = item.routes.State()
	}
	item.mu.Unlock()
	if len(state) == 0 || len(state) > longestState {
		return
	}
	if l.states == nil {
		l.states, _ = simplelru.NewLRU(mostEvictedBytes/stateOverhead, func(site string, state []byte) { // fails for sizes below 1 only
			l.bytes -= len(site) + len(state) + stateOverhead
		})
	}
	l.states.Remove(site)
	for l.bytes += len(site) + len(state) + stateOverhead; l.bytes > mostEvictedBytes && l.states.Len() > 0; {
		l.states.RemoveOldest()
	}
	l.states.Add(strings.Clone(site), state)
}

// restore sets routes to the saved state of the site, and returns false if there is none.
func (l *evictedSites) restore(site string, to *routes.Table) bool {
	if l.states == nil {
		return false
	}
	state, known := l.states.Peek(site)
	l.states.Remove(site)
	return known && to.Restore(state) == nil
}
