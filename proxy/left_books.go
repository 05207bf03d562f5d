package proxy

import (
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/ledger"
)

const (
	// mostLeftBytes is how much memory the states of left books of a shard may take, 32 MiB
	// in all: those of about 60,000 sites with one limit.
	mostLeftBytes = 32 << 20 / bookShards
	// longestLeftState is the longest state that is kept of a book that has left.
	longestLeftState = 16 << 10
	// leftEach is about what a state takes beside its text.
	leftEach = 220
)

// leftBooks are the states of books that have left, of sites with limits: a request to
// such a site has to know which limits it is under. Those that left first are forgotten
// first.
type leftBooks struct {
	states *simplelru.LRU[string, []byte] // :: site → state of its routes
	bytes  int
}

// keep keeps what is known of a site's routes, if there are limits.
func (l *leftBooks) keep(site string, b *book) {
	b.mu.Lock()
	var state []byte
	if b.routes.Limited() {
		state = b.routes.State()
	}
	b.mu.Unlock()
	if len(state) == 0 || len(state) > longestLeftState {
		return
	}
	if l.states == nil {
		l.states, _ = simplelru.NewLRU(mostLeftBytes/leftEach, func(site string, state []byte) { // fails for sizes below 1 only
			l.bytes -= len(site) + len(state) + leftEach
		})
	}
	l.states.Remove(site)
	for l.bytes += len(site) + len(state) + leftEach; l.bytes > mostLeftBytes && l.states.Len() > 0; {
		l.states.RemoveOldest()
	}
	l.states.Add(strings.Clone(site), state)
}

// bring has routes be as they were when the site's book left, and tells whether that is
// known.
func (l *leftBooks) bring(site string, to *ledger.Routes) bool {
	if l.states == nil {
		return false
	}
	state, known := l.states.Peek(site)
	l.states.Remove(site)
	return known && to.Restore(state) == nil
}
