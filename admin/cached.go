package admin

import (
	"sync/atomic"
	"time"
)

// cached is a value that is read again when it is older than kept. It is safe for concurrent
// use, and no lock is held while it is read.
type cached[T any] struct {
	kept time.Duration
	last atomic.Pointer[readValue[T]]
}

// readValue is a value and when it was read.
type readValue[T any] struct {
	value T
	at    time.Time
}

// get is the value, which is read again where it is too old or has to be new.
func (c *cached[T]) get(now time.Time, isNew bool, read func() T) T {
	if last := c.last.Load(); last != nil && !isNew && now.Sub(last.at) < c.kept {
		return last.value
	}
	next := &readValue[T]{read(), now}
	c.last.Store(next)
	return next.value
}
