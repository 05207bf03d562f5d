// Package clock is the time that abide goes by: the computer's, or a virtual time in which
// a plan plays weeks of requests in seconds.
package clock

import (
	"container/heap"
	"time"
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

// Virtual is a clock whose time passes only by its method Step, from one call that was
// asked for to the next. It is for one goroutine:
//
//	v := clock.NewVirtual(start)
//	v.AfterFunc(time.Hour, f)
//	for v.Step() {
//	}
type Virtual struct {
	now    time.Time
	calls  calls
	serial uint64 // of the last call that was asked for
}

// NewVirtual makes a clock that shows the time start.
func NewVirtual(start time.Time) *Virtual { return &Virtual{now: start} }

// Now is the virtual time.
func (v *Virtual) Now() time.Time { return v.now }

// AfterFunc has Step call f once d has passed. Calls for the same time are made in the
// order in which they were asked for.
func (v *Virtual) AfterFunc(d time.Duration, f func()) Timer {
	c := &call{clock: v, f: f, index: -1}
	c.Reset(d)
	return c
}

// Step goes on to the time of the next call and makes it. It is false if there is none.
func (v *Virtual) Step() bool {
	if len(v.calls) == 0 {
		return false
	}
	c := heap.Pop(&v.calls).(*call)
	if c.at.After(v.now) {
		v.now = c.at
	}
	c.f()
	return true
}

// Next is the time of the next call; zero if there is none.
func (v *Virtual) Next() time.Time {
	if len(v.calls) == 0 {
		return time.Time{}
	}
	return v.calls[0].at
}

// call is a function that is to be called at a time.
type call struct {
	clock  *Virtual
	at     time.Time
	serial uint64
	f      func()
	index  int // in the heap; -1 is not there
}

func (c *call) Stop() bool {
	if c.index < 0 {
		return false
	}
	heap.Remove(&c.clock.calls, c.index)
	return true
}

func (c *call) Reset(d time.Duration) bool {
	was := c.Stop()
	c.clock.serial++
	c.at, c.serial = c.clock.now.Add(max(d, 0)), c.clock.serial
	heap.Push(&c.clock.calls, c)
	return was
}

// calls is a heap whose first call is the next.
type calls []*call

func (c calls) Len() int { return len(c) }

func (c calls) Less(i, j int) bool {
	if order := c[i].at.Compare(c[j].at); order != 0 {
		return order < 0
	}
	return c[i].serial < c[j].serial
}

func (c calls) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].index, c[j].index = i, j
}

func (c *calls) Push(item any) {
	added := item.(*call)
	added.index = len(*c)
	*c = append(*c, added)
}

func (c *calls) Pop() any {
	last := len(*c) - 1
	call := (*c)[last]
	(*c)[last] = nil
	*c, call.index = (*c)[:last], -1
	return call
}
