// Package clock is the time that abide goes by: the computer's, or a virtual time in which
// a plan plays weeks of requests in seconds.
package clock

import "time"

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
