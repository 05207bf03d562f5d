package backfill

import (
	"context"
	"sync"
)

// mostResting bounds the units under way for each worker: their requests wait before they are sent again.
const mostResting = 16

// crew counts the units that a process works on. A unit has a worker from its claim to its end, but
// not while its request waits before it is sent again: a worker that is free then begins another unit.
// The Sender bounds the requests that are in flight at one time. Safe for concurrent use.
type crew struct {
	workers int // of the job

	mu      sync.Mutex
	busy    int           // workers
	units   int           // under way
	changed chan struct{} // has an element when a worker may be free
}

// join waits for a free worker, and begins a unit.
func (c *crew) join(ctx context.Context) error {
	for !c.begin() {
		select {
		case <-c.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// begin begins a unit if a worker is free.
func (c *crew) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := c.busy < c.workers && c.units < mostResting*c.workers
	if free {
		c.busy, c.units = c.busy+1, c.units+1
	}
	return free
}

// leave ends a unit.
func (c *crew) leave() { c.change(-1, -1) }

// rest takes the worker from a unit, or gives it one.
func (c *crew) rest(resting bool) {
	if resting {
		c.change(-1, 0)
	} else {
		c.change(1, 0)
	}
}

func (c *crew) change(workers, units int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.units = c.busy+workers, c.units+units
	select {
	case c.changed <- struct{}{}:
	default: // join is told already
	}
}

// size is the number of units under way.
func (c *crew) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.units
}
