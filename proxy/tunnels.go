package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tunnelQuiet is how long a tunnel must have been silent to be closed at once
// when the proxy stops. One that moves gets the whole drain time.
const tunnelQuiet = time.Second

// tunnels are the connections that no http.Server watches any more. The zero
// value is empty.
type tunnels struct {
	mu    sync.Mutex
	open  map[net.Conn]*tunnel
	limit context.Context // set when draining
	busy  sync.WaitGroup
}

type tunnel struct {
	last   atomic.Int64 // sinceStart of the last byte
	cancel context.CancelFunc
}

// run relays inside do, which ends when its context does, and calls active for
// each sign of life.
func (t *tunnels) run(conn net.Conn, do func(ctx context.Context, active func())) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	this := &tunnel{cancel: cancel}
	this.last.Store(int64(sinceStart()))
	if !t.enter(conn, this) {
		conn.Close()
		return
	}
	defer t.remove(conn)
	do(ctx, func() { this.last.Store(int64(sinceStart())) })
}

// add watches a connection that is being opened; false when it is too late.
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
	t.busy.Add(1)
	return true
}

func (t *tunnels) remove(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, conn)
	t.busy.Done()
}

// draining says until when tunnels may go on.
func (t *tunnels) draining(limit context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = limit
}

// wait returns when all tunnels have ended. It closes those that are silent,
// and all of them when ctx ends.
func (t *tunnels) wait(ctx context.Context) {
	ended := make(chan struct{})
	go func() { t.busy.Wait(); close(ended) }()
	look := time.NewTicker(tunnelQuiet / 4)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return
		case <-look.C:
			t.closeQuiet(int64(sinceStart() - tunnelQuiet))
		case <-ctx.Done():
			t.closeQuiet(int64(sinceStart()) + 1)
			<-ended
			return
		}
	}
}

// closeQuiet ends the tunnels whose last byte came before a time.
func (t *tunnels) closeQuiet(before int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, this := range t.open {
		if this.last.Load() < before {
			this.cancel()
		}
	}
}
