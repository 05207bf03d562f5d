package learn

import (
	"slices"
	"time"
)

// Scope tells which requests a limit or a refusal applies to.
type Scope uint8

const (
	None  Scope = iota // unknown
	Token              // requests to the host with the same credential, or without one
	Route              // of these, the requests of one bucket, or of one method and path if the bucket has no name
	Site               // all requests to the host
)

var scopes = [...]string{None: "none", Token: "token", Route: "route", Site: "site"}

func (s Scope) String() string {
	if int(s) < len(scopes) {
		return scopes[s]
	}
	return "none"
}

// ParseScope parses a name written by String.
func ParseScope(text string) (Scope, bool) {
	s := slices.Index(scopes[:], text)
	return Scope(max(s, 0)), s >= 0
}

// Unit names the things that a limit counts. The empty unit is requests.
type Unit string

const (
	Requests   Unit = ""
	Tokens     Unit = "tokens" // of a language model
	Points     Unit = "points" // of cost
	Bytes      Unit = "content-bytes"
	Weight     Unit = "weight" // of requests with different costs
	Concurrent Unit = "concurrent-requests"
	Percent    Unit = "percent" // used part of an unknown amount
)

// consumed tells whether every request uses units that come back only with time.
func (u Unit) consumed() bool { return u != Concurrent && u != Percent }

// countsRequests tells whether a lesson's summary may be about this unit.
func (u Unit) countsRequests() bool { return u == Requests || u == Weight }

// Amount is a number that may be unknown. The zero value is unknown.
type Amount struct {
	N     float64
	Known bool
}

func amount(n float64) Amount { return Amount{N: n, Known: true} }

// Request is the request that was answered.
type Request struct {
	Method, Host, Path string

	// Dialect is the operator's dialect of the site, or nil. It takes precedence over the
	// built-in dialects.
	Dialect *Dialect
}

// Lesson holds the statements of one response about limits. The zero value tells nothing. Times are
// nominal: by the local clock, without a safety margin, never before the response and at
// most 31 days after it.
type Lesson struct {
	Throttled bool // the response is a refusal

	// Permanent: waiting does not help, because the credential is not paid for or not valid.
	// Lock: another request held a lock, and no rate was exceeded. Concurrency: too many requests were in flight.
	// Overload: the server is short of capacity, whatever this client's rate is. Block: the
	// server refuses everything from this client for a while, and asking again prolongs it.
	Permanent, Lock, Concurrency, Overload, Block bool

	Reason string // of a Permanent refusal: what is wrong with the credential, if known

	// Scope and Bucket tell which requests the rest applies to. Documented is the scope
	// that the service documents if its response does not tell it; otherwise None.
	Scope      Scope
	Bucket     string
	Documented Scope

	// Limit, Remaining, Reset and Window describe the binding limit: of the used-up limits
	// the one that resets last, otherwise the one with the least remaining. A zero time or
	// window is unknown.
	Limit, Remaining Amount
	Reset            time.Time
	Window           time.Duration

	// RetryAt is the earliest time of the next request. It is zero if no request has to
	// wait, and on a refusal that names no time. Named: the server named this time for this
	// purpose, as with Retry-After; otherwise it follows from the announced limits.
	RetryAt time.Time
	Named   bool

	// Limits are all limits that the response announced, the binding one first.
	Limits []Limit
}

// Limit is one limit that a response announced.
type Limit struct {
	// Name distinguishes the limits of one server: the dimension of the headers
	// ("requests", "daily"), or the server's own name.
	Name string

	Bucket    string // the server's name of the shared budget
	Partition string // the server's opaque key of the client or account
	Scope     Scope  // None: Lesson.Scope applies
	Unit      Unit

	Limit, Remaining, Used Amount

	// Reset is the time at which all units are available again; the true time is up to Resolution later.
	// Relative tells that the server sent a duration, so its clock does not matter.
	Reset      time.Time
	Resolution time.Duration
	Relative   bool
	Skew       Skew // of a Reset that is not Relative

	Next   time.Time // when one more unit is available
	Window time.Duration
	Rate   float64 // units per second that come back; 0: unknown
	Other  bool    // the limit does not apply to requests like this one
}

// OnlyUsed reports whether the server tells only how much of the limit is used, which says nothing of what is left.
func (l *Limit) OnlyUsed() bool {
	return l.Used.Known && l.Unit != Percent && !l.Limit.Known && !l.Remaining.Known && l.Reset.IsZero()
}

// Skew is the time by which the local clock is ahead of the server's.
type Skew struct {
	Known   bool          // the response told the server's time, in Date
	Most    time.Duration // at most; at the least a second and the response's latency less
	Applied time.Duration // what was added to Reset for the reset of the limit
	Reset   time.Time     // the reset as the server sent it, by the server's clock
}

// usedUp tells whether less than one unit is left.
func (l *Limit) usedUp() bool {
	return l.Unit.consumed() && !l.Other && l.Remaining.Known && l.Remaining.N < 1
}
