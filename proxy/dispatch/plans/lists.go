package plans

import (
	"sync"
	"sync/atomic"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/tokens"
)

const (
	// mostRouted is how many limits of a rule may be about some requests only, so
	// that lists of them are kept.
	mostRouted = 256
	// mostLists is how many lists of a rule are kept: strangers choose the paths.
	mostLists = 256
)

// covers tells which of the limits that are about some requests only are about
// one.
type covers [mostRouted / 64]uint64

// listKey is what requests have in common that take from the same limits.
type listKey struct {
	covers   covers
	learned  *routes.Limit     // the first of those that were learned
	known    *learn.KnownLimit // the first of those of the service
	set      *tokens.Set
	own      string // whose budget, where that is the client's own
	estimate int64  // of the bytes of an answer, where those are limited
}

// lists are the limits of requests by what those have in common. They are made once,
// because a list is long and the queue knows one again that it has seen.
type lists struct {
	routed []int // indexes of limits that are not about every request
	known  atomic.Pointer[map[listKey][][]queue.Limit]
	mu     sync.Mutex // held to replace known
}

// of are the lists of what a request is like, nil if they are not known.
func (l *lists) of(c listKey) [][]queue.Limit {
	if known := l.known.Load(); known != nil {
		return (*known)[c]
	}
	return nil
}

// keep remembers lists, which nobody changes any more, and tells whether it did.
// When there are too many it begins again: some are of what was learned before, or
// of tokens that are not there any more.
func (l *lists) keep(c listKey, all [][]queue.Limit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := map[listKey][][]queue.Limit{c: all}
	if known := l.known.Load(); known != nil && len(*known) < mostLists {
		for at, lists := range *known {
			now[at] = lists
		}
	}
	l.known.Store(&now)
	return true
}

// covers tells what covers a request. few is false when there is more to tell than
// there is room for.
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
