package proxy

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/abide-proxy/abide/policy"
)

// errands are what the server does on no single client's account. They end with
// the server at the latest. The zero value is ready.
type errands struct {
	mu      sync.Mutex
	ctx     context.Context // of all of them; nil before the first
	stop    context.CancelFunc
	over    bool
	running sync.WaitGroup
}

// begin is for one that is about to run; done must follow. It is false once the
// server stops.
func (e *errands) begin() (context.Context, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return nil, false
	}
	if e.ctx == nil {
		e.ctx, e.stop = context.WithCancel(context.Background())
	}
	e.running.Add(1)
	return e.ctx, true
}

func (e *errands) done() { e.running.Done() }

// cancel ends those that run and lets no other begin. It waits for nothing.
func (e *errands) cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.stop != nil {
		e.stop()
	}
}

// end is cancel, and returns when nothing runs any more.
func (e *errands) end() {
	e.cancel()
	e.running.Wait()
}

// rescueErrand is deferred by an errand: a panic of ours ends it and nothing else.
func (s *Server) rescueErrand(t policy.Target, then func()) {
	bug := recover()
	if bug == nil {
		return
	}
	s.log.WithField("panic", fmt.Sprintf("%T", bug)).Errorf("abide failed on an errand to %s: %s", t.Host, frames(debug.Stack()))
	then()
}
