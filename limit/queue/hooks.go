package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// The interfaces of this file are what a Gate calls of its user. The rule for all of
// their methods, but for the two that say otherwise:
//
//   - They are called under the lock of the request's site. So they only look up what
//     they answer: they never wait, send, dial or write.
//   - They never call the Gate, a Permit or a ByteSource: that would lock the site again.
//   - The locks that they take are never held during a call of the Gate.

// Hooks are the calls of a Gate to its user.
type Hooks interface {
	// Limits answers the limits of a request by what is known now, and the version of
	// that knowledge, for Request.Version.
	Limits(r Request) (limits [][]Limit, version uint64)

	// Waits reports that a request has to wait, once for each wait. Of the permit it may
	// only call Blocker, and BlockedBy when the wait is over, also if the wait ended
	// with an error. It is called without a lock.
	Waits(r *Request, w Waiter)

	// Cooled reports a cooldown that a permit has begun or prolonged, so that other
	// instances hear of the cooldown. It is called without a lock and may call the gate.
	Cooled(site string, at Scope, until time.Time, why string)
}

// Waiter is a permit whose request waits.
type Waiter interface {
	Blocker() Blocker
	BlockedBy() string
}

// Chooser chooses an alternative for a request.
type Chooser interface {
	// Choose answers which of the alternatives that are ready, by their index in
	// Request.Limits, the request takes. It is called if there are two or more.
	Choose(ready []int) int
}

// Ranking is the order of a request's alternatives. It leads to the same choice as the
// Chooser of the request, without a look at each alternative.
type Ranking interface {
	// Rank is the place of an alternative. Of those that are ready the least rank is
	// chosen, and of equal ranks the first. A rank never falls. ok is false for an
	// alternative that is only chosen if there is no other.
	Rank(i int) (r [3]uint64, ok bool)
	// Rests is the time until which an alternative is only chosen if there is no other;
	// a time that is not after now has no effect.
	Rests(i int) time.Time
	// Chosen reports the choice.
	Chosen(i int)
}

// MeterSource provides the meters of a limit.
type MeterSource interface {
	// NewMeter makes the meter of a limit without a Spec. A resource keeps the first
	// meter that was made for it, whatever source later requests have: two sources
	// cannot be compared. NewMeter is also called for a meter that is only looked at, so
	// it has no other effect. Waits are estimated only as far as such a meter tells.
	NewMeter() limit.Meter

	// External answers the meter that a resource has in place of m: a meter whose state
	// is also kept elsewhere, or m as it was before a restart; nil leaves m. It is called
	// once for each resource, and again for another Spec unless the meter is Changing.
	// Without a Spec, spec is the zero value.
	External(site string, at Scope, spec limit.Spec, m limit.Meter) limit.Meter
}
