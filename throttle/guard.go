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

// End has what is held back answered now, since the listener stops. The log is told nothing
// more.
func (g *Guard) End() {
	g.end.Do(func() {
		close(g.ended)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen.forget()
	})
}

// Wrong notes that a wrong secret came from an address, and returns when that may be
// answered: after 10 seconds at the latest, when ctx is done, and at the End.
func (g *Guard) Wrong(ctx context.Context, from netip.Addr) {
	g.mu.Lock()
	delay := g.seen.wrong(time.Now(), from)
	g.mu.Unlock()
	g.tell(from, false)
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

// tell has the log tell of an address if it may, and looks at the address again later if it
// may not yet, or more may follow. due is that an earlier look has planned this one.
func (g *Guard) tell(from netip.Addr, due bool) {
	g.mu.Lock()
	one := g.seen.of(from)
	wrong := 0
	if one != nil {
		if due {
			one.look = nil
		}
		wrong = g.seen.say(time.Now(), one)
		if one.look == nil && (wrong > 0 || one.unsaid > 0) && !g.over() {
			one.look = time.AfterFunc(one.pause, func() { g.tell(from, true) })
		}
	}
	g.mu.Unlock()
	if wrong > 0 && !g.over() {
		g.say(from, wrong)
	}
}

func (g *Guard) over() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}
