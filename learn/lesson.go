package learn

import "time"

// Scope is whom something that a response says is about.
type Scope uint8

const (
	None  Scope = iota // nothing was learned
	Token              // the host and the credential, or the host and nobody's
	Route              // of that, one bucket; without a name, the method and path
	Site               // the whole host, whatever the credential
)

var scopes = [...]string{None: "none", Token: "token", Route: "route", Site: "site"}

func (s Scope) String() string {
	if int(s) < len(scopes) {
		return scopes[s]
	}
	return "none"
}

// ParseScope reads what String wrote.
func ParseScope(text string) (Scope, bool) {
	for s, name := range scopes {
		if name == text {
			return Scope(s), true
		}
	}
	return None, false
}

// Unit is what a limit counts. The empty unit is requests.
type Unit string

const (
	Requests   Unit = ""
	Tokens     Unit = "tokens" // of a language model
	Points     Unit = "points" // of cost
	Bytes      Unit = "content-bytes"
	Weight     Unit = "weight" // of requests that count differently
	Concurrent Unit = "concurrent-requests"
	Percent    Unit = "percent" // used, of an amount that is not said
)

// spends says whether a request always takes some of the unit, and whether what
// is left comes back only with time.
func (u Unit) spends() bool { return u != Concurrent && u != Percent }

// counts says whether the summary of a lesson is about this unit.
func (u Unit) counts() bool { return u == Requests || u == Weight }

// Amount is a number that may be unknown, which its zero value is.
type Amount struct {
	N     float64
	Known bool
}

func amount(n float64) Amount { return Amount{N: n, Known: true} }

// Request is what has been asked.
type Request struct {
	Method, Host, Path string

	// Dialect is the operator's own, read before those that this package has.
	Dialect *Dialect
}

// Lesson is what one response says of limits. Its zero value says nothing. Times
// are nominal, by the local clock and without a margin, and never before the
// response or more than 31 days after it.
type Lesson struct {
	Throttled bool // this response was a refusal

	// Permanent is a refusal that waiting does not help against: a bill to pay.
	// Lock is one for a lock that another request held, which says nothing about
	// any rate. Concurrency is one for too many in flight.
	Permanent, Lock, Concurrency bool

	// Scope and Bucket are whom the rest is about. Documented is what the service
	// documents where its response does not show it, and None otherwise.
	Scope      Scope
	Bucket     string
	Documented Scope

	// The limit that binds first: of those that are used up the one that resets
	// last, else the one with the least remaining. A zero time or window is
	// unknown.
	Limit, Remaining Amount
	Reset            time.Time
	Window           time.Duration

	// RetryAt is when the next request may go at the earliest. It is zero where
	// nothing has to wait, and on a refusal where nobody said until when.
	RetryAt time.Time

	// Limits are all that the response announced, the binding one first.
	Limits []Limit
}

// Limit is one limit that a response announced.
type Limit struct {
	// Name tells the limits of one server apart: the dimension of its headers
	// ("requests", "daily"), or the name that the server gave.
	Name string

	Bucket    string // the server's name for what shares it
	Partition string // the server's key for whom it is, opaque
	Scope     Scope  // None is what the lesson says
	Unit      Unit

	Limit, Remaining, Used Amount

	// Reset is when the limit is whole again, known to within Resolution later.
	// Relative means that the server said how long, so that its clock does not
	// matter.
	Reset      time.Time
	Resolution time.Duration
	Relative   bool

	Next   time.Time // when one more unit is there
	Window time.Duration
	Rate   float64 // units a second that come back, when said
	Other  bool    // not a limit for requests like this one
}

// spent says whether not even one unit is left.
func (l *Limit) spent() bool {
	return l.Unit.spends() && !l.Other && l.Remaining.Known && l.Remaining.N < 1
}
