// Package throttle slows down clients that present wrong secrets. It never sees a secret:
// callers compare first, so that a correct secret is accepted at once, even if
// wrong secrets came from the same address.
//
//	if !secret.Equal(presented) {
//		guard.Wrong(r.Context(), address) // returns when the refusal may be answered
//		refuse(w)
//	}
package throttle

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

const (
	// freeAttempts is the number of wrong secrets of an address that are answered without delay.
	freeAttempts = 10
	// attemptInterval is the time after which one more attempt is free.
	attemptInterval = 5 * time.Second
	// longestDelay bounds the delay of the answer to a wrong secret.
	longestDelay = 10 * time.Second
	// The first wrong secret of an address is logged at once, further ones after
	// firstPause, after ten times as long, and then every logInterval.
	firstPause  = time.Second
	logInterval = time.Minute
	// maxLogBurst bounds consecutive log lines about different addresses, and
	// logLineInterval is the interval of further lines.
	maxLogBurst     = 60
	logLineInterval = time.Second
	// maxAddresses bounds the remembered addresses. The least recent is replaced.
	maxAddresses = 10_000
)

// addresses are the addresses that have presented wrong secrets. It is not safe for
// concurrent use. An IPv6 address stands for its /64, the smallest network of one customer.
type addresses struct {
	known *simplelru.LRU[netip.Addr, *address]
	lines *rate.Limiter // limits the log lines
}

// address is the state of one address.
type address struct {
	nextAnswer time.Time     // when the last wrong secret may be answered, without free attempts
	loggedAt   time.Time     // time of the last log line
	pause      time.Duration // time until the next log line
	notLogged  int           // wrong secrets since the last log line
	logTimer   *time.Timer   // checks whether a line may be logged; nil: nothing to log
}

func newAddresses() *addresses {
	known, _ := simplelru.NewLRU(maxAddresses, func(_ netip.Addr, item *address) { // fails for sizes below 1 only
		if item.logTimer != nil {
			item.logTimer.Stop()
		}
	})
	return &addresses{known, rate.NewLimiter(rate.Every(logLineInterval), maxLogBurst)}
}

// wrong records a wrong secret and returns the delay of its answer.
func (a *addresses) wrong(now time.Time, from netip.Addr) (delay time.Duration) {
	from = network(from)
	item, known := a.known.Get(from)
	if !known {
		item = &address{pause: firstPause}
		a.known.Add(from, item)
	}
	// Answers to one address are spaced, however many connections it has.
	if least := now.Add(-freeAttempts * attemptInterval); item.nextAnswer.Before(least) {
		item.nextAnswer = least
	}
	item.nextAnswer = item.nextAnswer.Add(attemptInterval)
	if most := now.Add(longestDelay); item.nextAnswer.After(most) {
		item.nextAnswer = most
	}
	item.notLogged++
	return max(item.nextAnswer.Sub(now), 0)
}

// toLog is the number of wrong secrets to log for an address now; 0: none.
func (a *addresses) toLog(now time.Time, item *address) int {
	since := now.Sub(item.loggedAt)
	if item.notLogged == 0 || !item.loggedAt.IsZero() && since < item.pause || !a.lines.AllowN(now, 1) {
		return 0
	}
	if item.pause = min(10*item.pause, logInterval); item.loggedAt.IsZero() || since > 2*logInterval {
		item.pause = firstPause
	}
	n := item.notLogged
	item.loggedAt, item.notLogged = now, 0
	return n
}

// network is the key that an address is counted under.
func network(from netip.Addr) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if prefix, err := from.Prefix(64); err == nil {
			return prefix.Addr()
		}
	}
	return from
}

// Guard delays the answers to wrong secrets. Make it with New; it is safe for concurrent
// use.
type Guard struct {
	onWrong func(from netip.Addr, wrong int)
	ended   context.Context // done: answers are not delayed any more
	end     context.CancelFunc

	mu        sync.Mutex
	addresses *addresses
}

// New makes a Guard without addresses. It calls say for each address at once, after a
// second, after ten more, and then at most once a minute, with the number of wrong secrets
// since the last call.
func New(say func(from netip.Addr, wrong int)) *Guard {
	g := &Guard{onWrong: say, addresses: newAddresses()}
	g.ended, g.end = context.WithCancel(context.Background())
	return g
}

// End releases all delayed answers, because the listener stops. Nothing is logged any more.
func (g *Guard) End() {
	g.end()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addresses.known.Purge()
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
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	case <-g.ended.Done():
	}
}

// logIfDue logs an address if a line is due, and otherwise sets its timer. due means that
// the timer called it.
func (g *Guard) logIfDue(from netip.Addr, due bool) {
	g.mu.Lock()
	wrong := 0
	if address, known := g.addresses.known.Peek(network(from)); known {
		if due {
			address.logTimer = nil
		}
		wrong = g.addresses.toLog(time.Now(), address)
		if address.logTimer == nil && (wrong > 0 || address.notLogged > 0) && g.ended.Err() == nil {
			address.logTimer = time.AfterFunc(address.pause, func() { g.logIfDue(from, true) })
		}
	}
	g.mu.Unlock()
	if wrong > 0 && g.ended.Err() == nil {
		g.onWrong(from, wrong)
	}
}
