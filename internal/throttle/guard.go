package throttle

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Guard delays the answers to wrong secrets. Make it with New; it is safe for concurrent
// use.
type Guard struct {
	onWrong func(from netip.Addr, wrong int)
	ended   chan struct{} // closed: answers are not delayed any more
	end     sync.Once

	mu        sync.Mutex
	addresses *addresses
}

// New makes a Guard without addresses. It calls say for each address at once, after a
// second, after ten more, and then at most once a minute, with the number of wrong secrets
// since the last call.
func New(say func(from netip.Addr, wrong int)) *Guard {
	return &Guard{onWrong: say, ended: make(chan struct{}), addresses: newAddresses()}
}

// End releases all delayed answers, because the listener stops. Nothing is logged any more.
func (g *Guard) End() {
	g.end.Do(func() {
		close(g.ended)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.addresses.forget()
	})
}

// Wrong records a wrong secret from an address, and returns when it may be answered: after
// at most 10 seconds, when ctx is done, or at End.
func (g *Guard) Wrong(ctx context.Context, from netip.Addr) {
	g.mu.Lock()
	delay := g.addresses.wrong(time.Now(), from)
	g.mu.Unlock()
	g.logIfDue(from, false)
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

// logIfDue logs an address if a line is due, and otherwise sets its timer. due means that
// the timer called it.
func (g *Guard) logIfDue(from netip.Addr, due bool) {
	g.mu.Lock()
	address := g.addresses.of(from)
	wrong := 0
	if address != nil {
		if due {
			address.logTimer = nil
		}
		wrong = g.addresses.toLog(time.Now(), address)
		if address.logTimer == nil && (wrong > 0 || address.notLogged > 0) && !g.over() {
			address.logTimer = time.AfterFunc(address.pause, func() { g.logIfDue(from, true) })
		}
	}
	g.mu.Unlock()
	if wrong > 0 && !g.over() {
		g.onWrong(from, wrong)
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
