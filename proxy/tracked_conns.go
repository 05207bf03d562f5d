package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// processStart is the zero of sinceStart.
var processStart = time.Now()

// sinceStart is the time since the process began. Connections keep times in this form,
// because it fits into an atomic.Int64.
func sinceStart() time.Duration { return time.Since(processStart) }

// idleBeforeClose is for how long a tunnel must have been idle to be closed before the
// drain time is over. Nobody can see whether the exchange inside a tunnel is complete. A
// tunnel whose client sent the last bytes may wait for a response and gets the whole time.
func idleBeforeClose(drain time.Duration) time.Duration { return min(drain/3, 10*time.Second) }

// drainStep is the time between two looks at the connections while they are drained.
const drainStep = 50 * time.Millisecond

// trackedConns are the client connections that no http.Server has: tunnels, and those that
// are being opened or closed. The zero value is empty.
type trackedConns struct {
	mu    sync.Mutex
	open  map[net.Conn]*trackedConn
	limit context.Context // until when they may go on; nil before drain
	idle  time.Duration   // set with limit
}

type trackedConn struct {
	last       atomic.Int64 // sinceStart of the last byte
	fromClient atomic.Bool  // the client sent the last byte
	cancel     context.CancelFunc
}

// relay calls copy, which copies bytes until its context ends, and calls active after each
// read: up says that the client sent the bytes.
func (t *trackedConns) relay(conn net.Conn, copy func(ctx context.Context, active func(up bool))) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tracked := &trackedConn{cancel: cancel}
	tracked.last.Store(int64(sinceStart()))
	if !t.enter(conn, tracked) {
		conn.Close()
		return
	}
	defer t.remove(conn)
	copy(ctx, func(up bool) {
		tracked.last.Store(int64(sinceStart()))
		tracked.fromClient.Store(up)
	})
}

// add tracks a connection that is being opened or closed. It is false if the drain time is
// over.
func (t *trackedConns) add(conn net.Conn) bool {
	return t.enter(conn, &trackedConn{cancel: func() { conn.Close() }})
}

func (t *trackedConns) enter(conn net.Conn, tracked *trackedConn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit != nil && t.limit.Err() != nil {
		return false
	}
	if t.open == nil {
		t.open = map[net.Conn]*trackedConn{}
	}
	t.open[conn] = tracked
	return true
}

func (t *trackedConns) remove(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, conn)
}

// drain begins to drain: connections may go on until limit ends, and tunnels that are idle
// for longer than idle are closed earlier.
func (t *trackedConns) drain(limit context.Context, idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.idle = limit, idle
}

func (t *trackedConns) draining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limit != nil
}

// wait returns when no connection is left. It closes idle tunnels, and all connections when
// ctx ends.
func (t *trackedConns) wait(ctx context.Context) {
	look := time.NewTicker(drainStep)
	defer look.Stop()
	for over := ctx.Done(); t.count() > 0; t.close(over == nil) {
		select {
		case <-look.C:
		case <-over:
			over = nil
		}
	}
}

func (t *trackedConns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// close ends idle tunnels, or all connections.
func (t *trackedConns) close(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := int64(sinceStart() - t.idle)
	for _, tracked := range t.open {
		if all || tracked.last.Load() < before && !tracked.fromClient.Load() {
			tracked.cancel()
		}
	}
}
