package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// A Gate calls its user by the interfaces of this file. The rule for all of
// their methods, but for the two that say otherwise:
//
//   - They are called under the lock of the request's site. So they only look up what
//     they answer: they never wait, send, dial or write.
//   - They never call the Gate, a Permit or a ByteSource: that would lock the site again.
//   - The locks that they take are never held during a call of the Gate.

// Hooks are the calls of a Gate to its user.
type Hooks interface {
	// Limits answers the limits of a request by what is known now, with Request.Needs, and the
	// version of that knowledge, for Request.Version.
	Limits(r Request) (limits [][]Limit, needs *Needs, version uint64)

	// Waits reports that a request has to wait, once for each wait. Of the permit it may
	// only call Blocker, and BlockedBy when the wait is over, also if the wait ended
	// with an error. It is called without a lock.
	Waits(r *Request, p *Permit)

	// Cooled reports a cooldown that a permit has begun or prolonged, so that other
	// instances hear of the cooldown. It is called without a lock and may call the gate.
	Cooled(site string, at Scope, until time.Time, why string)
}

// Ranking is the order of a request's alternatives, by their index in Request.Limits.
type Ranking interface {
	// Rank returns the place of an alternative. Of those that are ready the least rank is
	// chosen, and of equal ranks the first.
	Rank(i int) Rank
	// Rests returns the time until which an alternative is only chosen if there is no other of
	// its class; a time that is not after now has no effect.
	Rests(i int) time.Time
	// Chosen reports a choice among several alternatives.
	Chosen(i int)
	// Common returns a key that is equal for all requests with the same order, whose ranks never
	// fall: such requests with the same needs share a sorted list. nil: the order is of this request alone.
	Common() any
}

// Rank is compared number by number. The highest two bits of the first are the class.
type Rank = [4]uint64

// MeterSource provides the meters of a limit.
type MeterSource interface {
	// NewMeter makes the meter of a limit without a Spec. A resource keeps the first
	// meter that was made for it, whatever source later requests have: two sources
	// cannot be compared. NewMeter is also called for a meter that is only looked at, so
	// it has no other effect. Waits are predicted only as far as such a meter tells, unless it is Learning.
	NewMeter() limit.Meter

	// External answers the meter that a resource has in place of m: a meter whose state
	// is also kept elsewhere, or m as it was before a restart; nil leaves m. It is called
	// once for each resource, and again for another Spec unless the meter is Changing.
	// Without a Spec, spec is the zero value.
	External(site string, at Scope, spec limit.Spec, m limit.Meter) limit.Meter
}

// Remote is a meter that gets what it has from elsewhere, such as a store.
type Remote interface {
	// Demand says how many units wait in all because the meter has not enough; 0 is
	// that none do any more.
	Demand(now time.Time, units int64)
	// Asks tells whether n units cannot be taken now only because an answer is still
	// to come: they are not known to be used up.
	Asks(now time.Time, n int64) bool
	// Away tells whether nothing goes because what the meter is kept in is not there.
	Away(now time.Time) bool
}

// Changing is a meter that MeterSource.External has answered and that can take another Spec.
type Changing interface {
	// Change takes another Spec, for which limit.New has made m, and tells whether it
	// did: if not, it is replaced.
	Change(now time.Time, spec limit.Spec, m limit.Meter) bool
}

// Learning is a meter of MeterSource that learns its limit from answers.
type Learning interface {
	// Ahead returns a copy in which all that is in flight is over, and which needs no answer
	// of the site to go on.
	Ahead(now time.Time) limit.Meter
	// Patience returns the time at which another may go without the answer for which the meter waits
	// while it tells limit.Unknown, if nothing happens before; zero is never. That is no promise, so that
	// nobody is refused for it.
	Patience(now time.Time) time.Time
}

// Unknowing is a meter of a limit that may not exist.
type Unknowing interface {
	// Unknown tells whether n units are kept back only because nothing is known of the
	// limit yet. Who would sooner be refused than wait does not wait for that.
	Unknown(now time.Time, n int64) bool
}

// Storable is a meter of a learned limit whose site may be stored: where there are very
// many sites, its State is kept in its place until it is Spare, or is needed again.
type Storable interface {
	limit.Meter
	// Spare tells whether forgetting it costs little, though it is not idle.
	Spare(now time.Time) bool
	// SpareAt returns the latest time at which the meter is Spare, if nothing happens before.
	SpareAt(now time.Time) time.Time
	// Blank tells whether it has learned nothing: its site is not remembered for it.
	Blank() bool
}
