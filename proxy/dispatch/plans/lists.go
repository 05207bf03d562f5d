package plans

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/tokens"
)

const (
	// mostRouted bounds the limits of a rule that are about some requests only: with more,
	// no lists are stored.
	mostRouted = 256
	// mostLists bounds the lists that are stored of a rule: strangers choose the paths.
	mostLists = 256
)

// covers has a bit for each limit that is about some requests only: it covers the request.
type covers [mostRouted / 64]uint64

// covers tells which limits cover a request. few is false if they are more than mostRouted.
func (p *Plan) covers(r *Subject) (c covers, few bool) {
	if len(p.lists.routed) > mostRouted {
		return c, false
	}
	for at, i := range p.lists.routed {
		if p.Limits[i].Rule.Covers(r.Method, r.Path) {
			c[at/64] |= 1 << (at % 64)
		}
	}
	return c, true
}

// listKey is equal for requests that take from the same limits.
type listKey struct {
	covers     covers
	learned    *routes.Limit     // the first of those that were learned
	known      *learn.KnownLimit // the first of those of the service
	set        *tokens.Set
	credential string // of the client, where limits hold for each
	estimate   int64  // of the bytes of an answer, where those are limited
}

// lists has the limits of requests by key. A list is made once, since it is long and the queue
// recognises lists that it has seen.
type lists struct {
	routed []int // indexes of limits that are not about every request
	known  atomic.Pointer[map[listKey][][]queue.Limit]
	mu     sync.Mutex // held to replace known
}

// of returns the lists of a key, nil if they are not known.
func (l *lists) of(c listKey) [][]queue.Limit {
	if known := l.known.Load(); known != nil {
		return (*known)[c]
	}
	return nil
}

// store stores lists, which nobody changes any more. When there are too many it begins again:
// some are of what was learned before, or of tokens that are not there any more.
func (l *lists) store(c listKey, all [][]queue.Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := map[listKey][][]queue.Limit{c: all}
	if known := l.known.Load(); known != nil && len(*known) < mostLists {
		maps.Copy(now, *known)
	}
	l.known.Store(&now)
}
