// Package limit is the arithmetic of rate limits: windows, buckets, quotas, requests
// in flight, and adaptive rates. It is pure, without goroutines, clocks and
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
// Every Take is followed by one Give, if nothing was sent, or by at most one
// Settle and then one Done.
//
// A server counts a request when it arrives, between Take and Done.
// Rolling, Fixed, Quota and Bucket keep the limit for any time of arrival up to
// a margin after Take: see margin.
//
// A clock that jumps back never allows more. Meters that measure a length
// of time use the monotonic reading of now, if any, and let no time pass
// while a clock goes back; meters aligned to the clock (Fixed, Quota) extend
// the window instead.
package limit

import "time"

// Meter is the state of one limit for one key. It is not safe for concurrent use: its owner
// has a lock. Most callers need When and Take. If you add a kind, see As.
type Meter interface {
	// When returns when n could be taken if nothing else is taken: a time not after now
	// means at once, Unknown means when a request is done. ok is false when n can never be
	// taken, because it exceeds the whole limit. The time is never too late: requests in
	// flight count as if they were done now, so ask again at that time.
	When(now time.Time, n int64) (at time.Time, ok bool)

	// Take takes n. The caller has asked When at the same now and got "at once"; otherwise
	// the meter is in debt.
	Take(now time.Time, n int64)

	// Give gives back units of a request that was never sent. It gives back less where all
	// would allow more than the limit.
	Give(now, taken time.Time, n int64)

	// Postpone records that the request of an earlier take is sent only now.
	Postpone(now, taken time.Time, n int64)

	// Settle replaces the estimate by the true cost of a sent request.
	Settle(now, taken time.Time, estimate, actual int64)

	// Done records that a sent request was answered or has ended. n is the taken amount, or
	// the amount after Settle.
	Done(now, taken time.Time, n int64, o Outcome)

	// Left is the largest amount that can be taken at once. For Adaptive any amount could
	// be taken; Left is the amount of a second.
	Left(now time.Time) int64

	// State is the meter in a form that can be stored, and Restore sets a new meter to it.
	// Units in flight that a meter allows a margin for have it after Restore, too: another
	// process may restore the state while they are. After an error Restore has changed nothing.
	State() []byte
	Restore(now time.Time, state []byte) error

	// Idle tells whether a new meter would allow no more than this one.
	Idle(now time.Time) bool
}

// Outcome is the end of a request.
type Outcome uint8

// The outcomes. Abandoned teaches nothing: the client left.
const (
	Success   Outcome = iota
	Refused           // by the server, because of a limit
	Failed            // on the way, or by the server's fault
	Abandoned         // by the client
)

// arrived reports whether the request has certainly reached the server and is not on its way any more.
func (o Outcome) arrived() bool { return o == Success || o == Refused }

// Unknown is When's result if the time depends on a Done: so far away that a timer for it
// never fires.
var Unknown = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// maxAmount is the largest amount of anything, so that sums cannot overflow.
const maxAmount = 1 << 50

// amount clamps n to 0…maxAmount.
func amount(n int64) int64 { return min(max(n, 0), maxAmount) }
