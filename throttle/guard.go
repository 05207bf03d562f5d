package throttle

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Guard holds the answers to wrong secrets back. Make it with New; it is safe for
// concurrent use.
type Guard struct {
	say   func(from netip.Addr, wrong int)
	ended chan struct{} // closed: nothing is held back any more
	end   sync.Once

	mu   sync.Mutex
	seen *addresses
}

// New is a Guard that has seen nobody. It calls say for each address at once, after a
// second, after ten more, and then at most once a minute, with how many wrong secrets came
// from there since the last call.
func New(say func(from netip.Addr, wrong int)) *Guard {
	return &Guard{say: say, ended: make(chan struct{}), seen: newAddresses()}
}

// End has what is held back answered now, since the listener stops.
func (g *Guard) End() { g.end.Do(func() { close(g.ended) }) }

// Wrong notes that a wrong secret came from an address, and returns when that may be
// answered: after 10 seconds at the latest, when ctx is done, and at the End.
func (g *Guard) Wrong(ctx context.Context, from netip.Addr) {
	g.mu.Lock()
	delay, say := g.seen.wrong(time.Now(), from)
	g.mu.Unlock()
	g.tell(from, say)
	if delay <= 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-g.ended:
	}
}

// tell has the log tell of an address, now and later of what follows.
func (g *Guard) tell(from netip.Addr, wrong int) {
	if wrong == 0 {
		return
	}
	g.say(from, wrong)
	g.mu.Lock()
	pause := g.seen.again(from)
	g.mu.Unlock()
	time.AfterFunc(pause, func() {
		g.mu.Lock()
		rest := g.seen.rest(time.Now(), from)
		g.mu.Unlock()
		g.tell(from, rest)
	})
}
