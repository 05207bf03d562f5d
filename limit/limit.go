// Package limit is the arithmetic of limits: windows, buckets, quotas, requests
// in flight, and rates that are found out. It has no goroutine, no clock and no
// I/O: now is always an argument.
//
//	m, err := limit.New(limit.Spec{As: limit.Rolling, Amount: 900, Window: 15 * time.Minute})
//	at, ok := m.When(now, 1)
//	switch {
//	case !ok: // never: it is larger than the whole limit
//	case !at.After(now):
//		m.Take(now, 1)
//	default: // ask again at that time
//	}
//
// Every Take is ended by one Give, when nothing was sent, or by at most one
// Settle and then one Done.
//
// A server counts a request when it arrives, some time between Take and Done. What
// Rolling, Fixed and Quota promise holds for whatever time that is, if it is no
// later than a margin after Take: see margin.
//
// A clock that jumps back never allows more. Those meters that measure a length
// of time use the monotonic reading of now when it has one, and let no time pass
// while a clock goes back; those that follow the clock (Fixed, Quota) make the
// window longer instead.
package limit

import "time"

// Meter is the running state of one limit for one key. It is not safe for
// concurrent use: whoever owns it has a lock. Most callers want When and Take.
type Meter interface {
	// When answers when n could be taken, if nobody else took anything: a time not
	// after now means at once, Unknown means when somebody is done. ok is false
	// when n can never be taken, because it is larger than the whole limit. It is
	// never too late: what is in flight counts as if it were done now, so when it
	// lasts, ask again then.
	When(now time.Time, n int64) (at time.Time, ok bool)

	// Take takes n. The caller has asked When at the same now and got "at once";
	// one that has not makes the meter owe.
	Take(now time.Time, n int64)

	// Give gives back what was taken for a request that was never sent. It gives
	// back less where the whole would allow more than the limit promises.
	Give(now, taken time.Time, n int64)

	// Postpone says that what was taken goes out only now.
	Postpone(now, taken time.Time, n int64)

	// Settle replaces an estimate by the true cost of a request that was sent.
	Settle(now, taken time.Time, estimate, actual int64)

	// Done says that a request that was sent is answered, or over. n is what was
	// taken, or what Settle has left of it.
	Done(now, taken time.Time, n int64, o Outcome)

	// Left is an amount that could be taken at once. It is the largest, but for
	// Adaptive, of which any could.
	Left(now time.Time) int64

	// State is the meter in a form that can be stored, and Restore is its return
	// into a meter that is new. Requests in flight are not part of it: they ended
	// with the process that had them. Restore leaves the meter as it was when the
	// state makes no sense.
	State() []byte
	Restore(now time.Time, state []byte) error

	// Idle tells whether forgetting the meter would allow nothing that keeping it
	// would not.
	Idle(now time.Time) bool
}

// Outcome is how a request ended.
type Outcome uint8

// The outcomes. Abandoned teaches nothing: the client left.
const (
	Success   Outcome = iota
	Refused           // by the server, because of a limit
	Failed            // on the way, or by the server's fault
	Abandoned         // by the client
)

// Unknown is When's answer where only somebody's Done can tell: a time so far
// away that a timer for it never fires.
var Unknown = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// most is the largest amount of anything, so that sums cannot overflow.
const most = 1 << 50

// amount is n within what can be counted.
func amount(n int64) int64 { return min(max(n, 0), most) }

// later is now and some nanoseconds, of which there are usually none.
func later(now time.Time, by int64) time.Time {
	if by == 0 {
		return now
	}
	return now.Add(time.Duration(by))
}
