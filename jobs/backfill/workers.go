package backfill

import (
	"context"
	"sync"

	"github.com/abide-proxy/abide/internal/signal"
)

// mostResting bounds the units under way for each worker: their requests wait before they are sent again.
const mostResting = 16

// workers counts the units that a process works on. A unit has a worker from its claim to its end, but
// not while its request waits before it is sent again: a worker that is free then begins another unit.
// The Sender bounds the requests that are in flight at one time. Safe for concurrent use.
type workers struct {
	most int // of the job

	mu      sync.Mutex
	busy    int           // workers
	units   int           // under way
	changed signal.Signal // a worker may be free
}

// begin waits for a free worker, and begins a unit.
func (w *workers) begin(ctx context.Context) error {
	for !w.beginNow() {
		select {
		case <-w.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// beginNow begins a unit if a worker is free.
func (w *workers) beginNow() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	free := w.busy < w.most && w.units < mostResting*w.most
	if free {
		w.busy, w.units = w.busy+1, w.units+1
	}
	return free
}

// end ends a unit.
func (w *workers) end() { w.change(-1, -1) }

// rest takes the worker from a unit, or gives it one.
func (w *workers) rest(resting bool) {
	if resting {
		w.change(-1, 0)
	} else {
		w.change(1, 0)
	}
}

func (w *workers) change(busy, units int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.units = w.busy+busy, w.units+units
	w.changed.Send()
}

// underWay is the number of units that the process works on.
func (w *workers) underWay() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.units
}
