package queue

import (
	"context"
	"time"
)

// caller is the request of a Gate's user that a hold belongs to.
type caller struct {
	request Request
	ctx     context.Context // of the wait that goes on
	asked   time.Time       // when that wait began
	waker   waker           // of that wait
}

// waker hears that a wait is over. wake is called under the lock of a site and never
// blocks. It may be called more than once for a wait.
type waker interface{ wake() }

// wakeChannel wakes a goroutine that waits. It has room for one.
type wakeChannel chan struct{}

func (c wakeChannel) wake() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wakeFunc is called when a wait is over: see Gate.Enter.
type wakeFunc func()

func (f wakeFunc) wake() { f() }

// beginWait prepares for a wait.
func (c *caller) beginWait() {
	if _, calls := c.waker.(wakeFunc); !calls {
		c.waker = make(wakeChannel, 1)
	}
}

// wake ends the wait.
func (c *caller) wake() {
	if c.waker != nil {
		c.waker.wake()
	}
}
