// Package background runs what no single client waits for, and ends it with the process.
package background

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/internal/shorten"
)

// Tasks are goroutines that end with the process at the latest. Recover needs the Log.
type Tasks struct {
	Log *logrus.Logger

	mu      sync.Mutex
	ctx     context.Context // of all tasks; nil before the first
	stop    context.CancelFunc
	over    bool
	running sync.WaitGroup
}

// Begin is for a task that is about to run; Done must follow. It is false once the process
// stops.
func (t *Tasks) Begin() (context.Context, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, false
	}
	if t.ctx == nil {
		t.ctx, t.stop = context.WithCancel(context.Background())
	}
	t.running.Add(1)
	return t.ctx, true
}

// Done is for a task that has ended.
func (t *Tasks) Done() { t.running.Done() }

// Cancel ends the tasks that run and lets no other begin. It waits for nothing.
func (t *Tasks) Cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.stop != nil {
		t.stop()
	}
}

// End is Cancel, and returns when nothing runs any more.
func (t *Tasks) End() {
	t.Cancel()
	t.running.Wait()
}

// Recover is deferred by a task about a host: a panic of abide ends the task and nothing
// else. After a panic it calls failed.
func (t *Tasks) Recover(host string, failed func()) {
	bug := recover()
	if bug == nil {
		return
	}
	t.Log.WithField("panic", fmt.Sprintf("%T", bug)).Errorf("abide failed in a background request to %s: %s", host, redact.Frames(debug.Stack()))
	failed()
}

// ErrPanic is the error of a call that ended by a panic.
var ErrPanic = errors.New("abide failed on the answer of a server")

// Caught is deferred by a call that reads what a server sends: a panic there becomes its error, so that the
// caller reports it and tries again.
func Caught(err *error) {
	if bug := recover(); bug != nil {
		*err = fmt.Errorf("%w (%T): %s", ErrPanic, bug, shorten.To(400, redact.Frames(debug.Stack())))
	}
}
