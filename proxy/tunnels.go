package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// quietFor is how long a tunnel must have been silent to be closed before the
// drain time is over: nobody can see whether what is inside it has finished. One
// whose client spoke last may wait for an answer and gets all the time.
func quietFor(drain time.Duration) time.Duration { return min(drain/3, 10*time.Second) }

// drainStep is how often a stop looks whether the tunnels have ended.
const drainStep = 50 * time.Millisecond

// tunnels are the connections that no http.Server watches any more. The zero
// value is empty.
type tunnels struct {
	mu    sync.Mutex
	open  map[net.Conn]*tunnel
	limit context.Context // set when draining
	quiet time.Duration   // set with it
}

type tunnel struct {
	last   atomic.Int64 // sinceStart of the last byte
	asked  atomic.Bool  // that was the client's
	cancel context.CancelFunc
}

// run relays inside do, which ends when its context does, and calls active for
// each sign of life.
func (t *tunnels) run(conn net.Conn, do func(ctx context.Context, active func(up bool))) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	this := &tunnel{cancel: cancel}
	this.last.Store(int64(sinceStart()))
	if !t.enter(conn, this) {
		conn.Close()
		return
	}
	defer t.remove(conn)
	do(ctx, func(up bool) {
		this.last.Store(int64(sinceStart()))
		this.asked.Store(up)
	})
}

// add watches a connection that is being opened or closed; false when it is too
// late.
func (t *tunnels) add(conn net.Conn) bool {
	return t.enter(conn, &tunnel{cancel: func() { conn.Close() }})
}

func (t *tunnels) enter(conn net.Conn, this *tunnel) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit != nil && t.limit.Err() != nil {
		return false
	}
	if t.open == nil {
		t.open = map[net.Conn]*tunnel{}
	}
	t.open[conn] = this
	return true
}

func (t *tunnels) remove(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, conn)
}

// draining says until when tunnels may go on, and for how long in silence.
func (t *tunnels) draining(limit context.Context, quiet time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.quiet = limit, quiet
}

func (t *tunnels) ending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limit != nil
}

// wait returns when all tunnels have ended. It closes those that are silent,
// and all of them when ctx ends.
func (t *tunnels) wait(ctx context.Context) {
	look := time.NewTicker(drainStep)
	defer look.Stop()
	over := ctx.Done()
	for t.count() > 0 {
		select {
		case <-look.C:
			t.close(over == nil)
		case <-over:
			over = nil
			t.close(true)
		}
	}
}

func (t *tunnels) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// close ends the tunnels that are silent, or all of them.
func (t *tunnels) close(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := int64(sinceStart() - t.quiet)
	for _, this := range t.open {
		if all || this.last.Load() < before && !this.asked.Load() {
			this.cancel()
		}
	}
}
