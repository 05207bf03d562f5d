// Package clock is the time that abide goes by: the computer's, or a virtual time in which
// a plan plays weeks of requests in seconds.
package clock

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
)

// Clock tells the time and calls functions later.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once d has passed: the System clock in a goroutine of its own, a
	// Virtual clock from its method Step.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call that is to come. *time.Timer is one.
type Timer interface {
	// Stop prevents the call. It is false if the call was made or stopped before.
	Stop() bool
	// Reset moves the call to d from now, or repeats it then.
	Reset(d time.Duration) bool
}

// System is the clock of the computer.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time                            { return time.Now() }
func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Sleep waits for d by the System clock. When ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ticks yields the time by the System clock after each d, until ctx ends.
func Ticks(ctx context.Context, d time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}

// Virtual is a clock whose time passes only by its method Step, from one call that was
// asked for to the next. It is for one goroutine:
//
//	v := clock.NewVirtual(start)
//	v.AfterFunc(time.Hour, f)
//	for v.Step() {
//	}
type Virtual struct {
	now    time.Time
	calls  heap.Heap[*call, byTime]
	serial uint64 // of the last call that was asked for
}

// NewVirtual makes a clock that shows the time start.
func NewVirtual(start time.Time) *Virtual { return &Virtual{now: start} }

// Now is the virtual time.
func (v *Virtual) Now() time.Time { return v.now }

// AfterFunc has Step call f once d has passed. Calls for the same time are made in the
// order in which they were asked for.
func (v *Virtual) AfterFunc(d time.Duration, f func()) Timer {
	c := &call{clock: v, f: f}
	c.Reset(d)
	return c
}

// Step goes on to the time of the next call and makes it. It is false if there is none.
func (v *Virtual) Step() bool {
	if v.calls.Empty() {
		return false
	}
	c := v.calls.Pop()
	if c.at.After(v.now) {
		v.now = c.at
	}
	c.f()
	return true
}

// Next is the time of the next call; zero if there is none.
func (v *Virtual) Next() time.Time {
	if v.calls.Empty() {
		return time.Time{}
	}
	return v.calls.Top().at
}

// call is a function that is to be called at a time.
type call struct {
	clock  *Virtual
	at     time.Time
	serial uint64
	f      func()
	place  int32 // in the heap
}

func (c *call) Stop() bool {
	if !c.clock.calls.Has(c) {
		return false
	}
	c.clock.calls.Remove(c)
	return true
}

func (c *call) Reset(d time.Duration) bool {
	was := c.Stop()
	c.clock.serial++
	c.at, c.serial = c.clock.now.Add(max(d, 0)), c.clock.serial
	c.clock.calls.Push(c)
	return was
}

// byTime orders calls by their times, and those for the same time by when they were asked for.
type byTime struct{}

func (byTime) Before(a, b *call) bool {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.serial, b.serial)) < 0
}

func (byTime) Place(c *call) *int32 { return &c.place }
