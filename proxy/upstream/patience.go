package upstream

import (
	"context"
	"sync"
	"time"
)

// pausableTimer calls onExpire after a time in which the peer could have acted. While a
// byte limit pauses the connection, the timer is paused, too. Safe for concurrent use.
type pausableTimer struct {
	conn     *meteredConn // nil: never paused
	onExpire func()

	mu            sync.Mutex
	timer         *time.Timer
	duration      time.Duration
	due           time.Time     // zero: not running
	pausedAtStart time.Duration // conn's pauses when due was set
}

// start restarts the timer.
func (p *pausableTimer) start(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.duration = d
	p.pausedAtStart, _ = p.conn.paused()
	p.due = time.Now().Add(d)
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.check)
	} else {
		p.timer.Reset(d)
	}
}

func (p *pausableTimer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
	if p.timer != nil {
		p.timer.Stop()
	}
}

// check runs when the timer fires. It may run late, after a stop or another start.
func (p *pausableTimer) check() {
	if p.expired() {
		p.onExpire()
	}
}

func (p *pausableTimer) expired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.IsZero() || time.Now().Before(p.due) {
		return false
	}
	still, now := p.conn.paused()
	if more := still - p.pausedAtStart; more > 0 || now {
		p.pausedAtStart = still
		p.due = p.due.Add(more)
		wait := time.Until(p.due)
		if now {
			// The end of the pause is not known; checking more often would waste time.
			wait = max(wait, p.duration/16, time.Millisecond)
		}
		p.timer.Reset(max(wait, 0))
		return false
	}
	p.due = time.Time{}
	return true
}

// withPausableTimeout is a context that ends after d, not counting pauses of conn.
func withPausableTimeout(ctx context.Context, conn *meteredConn, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pausableTimer{conn: conn, onExpire: func() { cancel(context.DeadlineExceeded) }}
	p.start(d)
	return ctx, func() {
		p.stop()
		cancel(nil)
	}
}
