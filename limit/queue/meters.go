package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Demanding is a meter that gets what it has from elsewhere, and wants to know how
// much to ask for.
type Demanding interface {
	// Demand says how many units wait in all because the meter has not enough; 0 is
	// that none do any more. It is called under the site's lock, so it never waits and
	// never calls the gate.
	Demand(now time.Time, units int64)
}

// Changing is a meter that MeterSource.External has answered and that can take another Spec.
type Changing interface {
	// Change takes another Spec, for which limit.New has made m, and tells whether it
	// did: if not, it is replaced.
	Change(now time.Time, spec limit.Spec, m limit.Meter) bool
}

// Remote is a meter that may be kept from what it needs.
type Remote interface {
	// Away tells whether nothing goes because what the meter is kept in is not there.
	Away(now time.Time) bool
}

// Asking is a meter that asks elsewhere what it has.
type Asking interface {
	// Asks tells whether n units cannot be taken now only because the answer is still
	// to come: they are not known to be used up.
	Asks(now time.Time, n int64) bool
}

// Impatient is a meter that answers limit.Unknown while it waits for the answer to a
// request, and does not wait for it for ever.
type Impatient interface {
	// Patience is when another may go without that answer, if nothing happens before;
	// zero is never. That is no promise, so that nobody is refused for it.
	Patience(now time.Time) time.Time
}

// Unknowing is a meter of a limit that may not exist.
type Unknowing interface {
	// Unknown tells whether n units are kept back only because nothing is known of the
	// limit yet. Who would sooner be refused than wait does not wait for that.
	Unknown(now time.Time, n int64) bool
}

// Spareable is a meter that can tell whether forgetting it costs little, though it is not
// idle. It is asked when the gate has very many sites.
type Spareable interface {
	Spare(now time.Time) bool
}

// Blank is a Spareable that may have learned nothing yet. Then its site is not remembered for
// it.
type Blank interface {
	// Blank tells whether it has learned nothing.
	Blank() bool
}

// Storable is a meter of a learned limit whose site may be stored: where there are very
// many sites, its State is kept in its place until it is Spare, or is needed again.
type Storable interface {
	limit.Meter
	Spareable
	// SpareAt is when the meter is Spare at the latest, if nothing happens before.
	SpareAt(now time.Time) time.Time
}
