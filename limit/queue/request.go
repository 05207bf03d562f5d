package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Request asks to send a request of a client to a site.
type Request struct {
	Site     string
	Client   string
	Weight   int
	Priority int   // 0 (most urgent) to 7; DefaultPriority is the usual one
	Cost     int64 // what fairness counts for it; 0 is 1

	Method, Path string // its route, for limits by it

	Wait time.Duration // shorter than the gate's; 0 is the gate's

	Tag        any    // the caller's own, for the gate's Plan
	Generation uint64 // the Generation by which Limits were made, asked for before they were
	Version    uint64 // what was known of the site then, for Replan

	// Limits are alternatives: it needs all of one of them. Empty is no limit. The
	// gate keeps the slices and does not change them, and neither may anybody else.
	Limits  [][]Limit
	Chooser Chooser // among the alternatives that are ready; nil takes the first
	Order   Ranking // the order by which Chooser chooses; nil: it has none

	Shared bool // many requests have these very Limits, so their resources are worth remembering

	// Now refuses it unless it may go at once. Wait is then how long a store may take
	// to say what is left of a limit.
	Now bool

	// Observe lets it go at once, whatever the limits say. Permit.Would tells what
	// would have kept it.
	Observe bool
}

// Scope names what a cooldown or an observation is about: one of the request's
// limits, or the whole site if it is zero.
type Scope struct {
	Limit, Key string
}

// Unit is what the amount of a Limit counts, which says how the amount is settled.
type Unit uint8

// The units.
const (
	_     Unit = iota // requests: the amount is certain
	Cost              // settled with Result.Cost
	Bytes             // settled with Result.Bytes
)

// Priorities run from 0, the most urgent, to 7, as in RFC 9218.
const (
	mostUrgent      = 0
	DefaultPriority = 3
	leastUrgent     = 7

	numPriorities = leastUrgent + 1
)

// Result is how a granted request ended.
type Result struct {
	Outcome limit.Outcome

	// Unsent says that nothing of it has reached the server: everything that it
	// took is given back.
	Unsent bool

	// Cost and Bytes are the true ones; 0 is as estimated.
	Cost, Bytes int64

	// Exact says that Bytes is true also when it is 0.
	Exact bool
}
