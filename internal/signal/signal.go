// Package signal wakes a goroutine that has something to do.
package signal

// Signal wakes its receiver once, however often it was sent meanwhile. Make it with New.
type Signal chan struct{}

// New is a signal that was not sent yet.
func New() Signal { return make(Signal, 1) }

// Send wakes the receiver, now or when it receives next. It does not block.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
