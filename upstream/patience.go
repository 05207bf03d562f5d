package upstream

import (
	"context"
	"sync"
	"time"
)

// patience calls do when a time has passed in which the peer could have acted:
// while a byte limit holds the connection still, the time stands still too.
type patience struct {
	conn *meteredConn // nil: the time never stands still
	do   func()

	mu    sync.Mutex
	timer *time.Timer
	whole time.Duration
	due   time.Time // zero: not running
	still time.Duration
}

// start begins anew.
func (p *patience) start(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = d
	p.still, _ = p.conn.paused()
	p.due = time.Now().Add(d)
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.look)
	} else {
		p.timer.Reset(d)
	}
}

func (p *patience) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
	if p.timer != nil {
		p.timer.Stop()
	}
}

// look may be late, after a stop or another start.
func (p *patience) look() {
	if p.over() {
		p.do()
	}
}

func (p *patience) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.IsZero() || time.Now().Before(p.due) {
		return false
	}
	still, now := p.conn.paused()
	if more := still - p.still; more > 0 || now {
		p.still = still
		p.due = p.due.Add(more)
		wait := time.Until(p.due)
		if now {
			// When it ends is not known. To look too often would be busy work.
			wait = max(wait, p.whole/16, time.Millisecond)
		}
		p.timer.Reset(max(wait, 0))
		return false
	}
	p.due = time.Time{}
	return true
}

// withPatience is a context that ends after d, not counting pauses of conn.
func withPatience(ctx context.Context, conn *meteredConn, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{conn: conn, do: func() { cancel(context.DeadlineExceeded) }}
	p.start(d)
	return ctx, func() {
		p.stop()
		cancel(nil)
	}
}
